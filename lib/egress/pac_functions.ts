/**
 * The functions that a proxy auto-configuration script may call, as source for its sandbox. They know what they are
 * told and nothing else: there is no resolver and no clock. So `dnsResolve` knows the address of the host that is
 * asked for, once whoever dials has looked it up, and `weekdayRange`, `dateRange` and `timeRange` are not there: a
 * script that calls them fails, and denies.
 */
export const PAC_FUNCTIONS = String.raw`
(function (host, address) {
  "use strict";
  const octets = (text) => {
    const parts = String(text).split(".");
    if (parts.length !== 4 || !parts.every((part) => /^\d{1,3}$/.test(part) && part < 256)) {
      return undefined;
    }
    return parts.map(Number);
  };
  const lower = (text) => String(text).toLowerCase();
  const resolve = (name) => {
    const wanted = lower(name);
    if (octets(wanted) || wanted.includes(":")) return wanted;
    if (wanted === "localhost") return "127.0.0.1";
    return wanted === host && address !== "" ? address : null;
  };
  const matches = (text, glob) => {
    let at = 0, seen = 0, star = -1, from = 0;
    while (at < text.length) {
      if (seen < glob.length && (glob[seen] === "?" || glob[seen] === text[at])
        && glob[seen] !== "*") { at++; seen++; }
      else if (glob[seen] === "*") { star = seen++; from = at; }
      else if (star >= 0) { seen = star + 1; at = ++from; }
      else return false;
    }
    while (glob[seen] === "*") seen++;
    return seen === glob.length;
  };
  const functions = {
    alert() {},
    isPlainHostName: (name) => !String(name).includes("."),
    dnsDomainIs: (name, domain) => lower(name).endsWith(lower(domain)),
    localHostOrDomainIs: (name, full) =>
      lower(name) === lower(full) ||
      !String(name).includes(".") && lower(full).startsWith(lower(name) + "."),
    dnsDomainLevels: (name) => String(name).split(".").length - 1,
    shExpMatch: (text, glob) => matches(String(text), String(glob)),
    dnsResolve: resolve,
    isResolvable: (name) => resolve(name) !== null,
    isInNet(name, pattern, mask) {
      const [own, net, bits] = [octets(resolve(name)), octets(pattern), octets(mask)];
      if (!own || !net || !bits) return false;
      return own.every((octet, i) => (octet & bits[i]) === (net[i] & bits[i]));
    },
    convert_addr(text) {
      const own = octets(text);
      return own ? own.reduce((sum, octet) => sum * 256 + octet, 0) : 0;
    },
    myIpAddress: () => "127.0.0.1",
  };
  for (const name of Object.keys(functions)) {
    Object.defineProperty(globalThis, name, { value: functions[name], writable: true, configurable: true });
  }
  delete Math.random;
})`;
