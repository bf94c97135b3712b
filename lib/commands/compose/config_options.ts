/** Options of `svc compose config`, named as docker compose names them: data only. */
import type { AnyOption } from "../../config/load.ts";
import { optionRows } from "../../config/option_rows.ts";

const { flag, text } = optionRows("Options");

export const CONFIG_OPTIONS = [
  {
    ...text("format", "format", "FORMAT", "How the project is printed."),
    choices: ["yaml", "json"],
    defaultText: "yaml",
  },
  flag("configQuiet", "quiet", "Only check the files, and print nothing.", "q"),
  flag("noInterpolate", "no-interpolate", "Leave variables as they are written."),
  flag(
    "noNormalize",
    "no-normalize",
    "Leave out what follows from the whole: names, the default network.",
  ),
  flag("noPathResolution", "no-path-resolution", "Leave relative paths as they are written."),
  flag("noConsistency", "no-consistency", "Do not check that what services name is there."),
  flag(
    "noEnvResolution",
    "no-env-resolution",
    "Accepted; env files are read all the same, as docker compose 2.40 does.",
  ),
  flag("configServices", "services", "Print the names of the services."),
  flag("configVolumes", "volumes", "Print the names of the volumes."),
  flag("configNetworks", "networks", "Print the names of the networks."),
  flag("configModels", "models", "Print the models."),
  flag("configProfiles", "profiles", "Print the names of the profiles."),
  flag("configImages", "images", "Print the names of the images."),
  flag("variables", "variables", "Print the variables of the files, and what stands in for them."),
  flag("environment", "environment", "Print the variables that the files are read with."),
  text("hash", "hash", "SERVICES", "Print the hash of the named services (a,b), or of all (*)."),
  {
    ...text("outputFile", "output", "PATH", "Write the project into a file.", "o"),
    defaultText: "standard output",
  },
] as const satisfies readonly AnyOption[];
