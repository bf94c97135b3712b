/** Algorithms that are offered to an SSH server. */
const TYPES = [
  "ssh-ed25519",
  "ecdsa-sha2-nistp256",
  "ecdsa-sha2-nistp384",
  "ecdsa-sha2-nistp521",
  "rsa-sha2-512",
  "rsa-sha2-256",
];

/** ssh2's host key algorithms, those of known keys first: the server then presents a key that is known. */
export function hostKeyAlgorithms(types: readonly string[]): string[] {
  const known = types.flatMap((type) =>
    type === "ssh-rsa" ? ["rsa-sha2-512", "rsa-sha2-256"] : [type]
  )
    .filter((type) => TYPES.includes(type));
  return [...new Set([...known, ...TYPES])];
}
