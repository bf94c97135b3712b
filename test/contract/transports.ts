/**
 * How much of the contract runs over which way to an engine. By default each way has the parts that it could change;
 * `SVC_TEST_TRANSPORTS=all` runs the whole contract over every way to every engine.
 */
export const ALL_TRANSPORTS = allTransports(Deno.env.get("SVC_TEST_TRANSPORTS"));

function allTransports(value = ""): boolean {
  if (value === "" || value === "all") return value === "all";
  throw new Error(
    `SVC_TEST_TRANSPORTS is ${JSON.stringify(value)}: it may be "all", or not be set`,
  );
}

/** What an engine of another host lacks, whatever it is. */
export const FAR = {
  folders: "the server does not see the folders of an engine that it reaches by tcp or ssh",
};
