/** What may have secrets: environments, headers of probes, and what kubectl keeps of manifests that had them. */
const DROPPED = new Set([
  ...["env", "envFrom", "httpHeaders", "managedFields", "imagePullSecrets"],
  "kubectl.kubernetes.io/last-applied-configuration",
]);

/** Tokens by their form (RFC 7519, RFC 6750), bootstrap tokens, and values of what is called a secret. */
const SECRETS: readonly RegExp[] = [
  /\beyJ[\w-]+\.[\w-]+\.[\w-]*/g,
  /(?<=\bbearer\s+)[\w.~+/-]+=*/gi,
  /(?<=\b[\w-]*(?:password|passwd|secret|token|api-?key|access-?key)"?\s*[=:]\s*"?)(?!(?:true|false|null|\d+)\b)[^\s"',}]+/gi,
  /\b(?:AKIA|ASIA)[A-Z0-9]{16}\b/g,
];

/** An object without environments. */
export function withoutSecrets(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutSecrets);
  if (typeof value === "string") return scrub(value);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).filter(([key]) => !DROPPED.has(key))
      .map(([key, item]) => [key, withoutSecrets(item)]),
  );
}

/** The text without what looks like a token or a password. */
export function scrub(text: string): string {
  return SECRETS.reduce(
    (rest, secret) => rest.replaceAll(secret, "[removed]"),
    text,
  );
}
