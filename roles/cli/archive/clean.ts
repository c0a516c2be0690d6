const REMOVED = "[removed]";

/** What may have secrets: environments, headers of probes, and what kubectl keeps of manifests that had them. */
const DROPPED = new Set([
  ...["env", "envFrom", "httpHeaders", "managedFields", "imagePullSecrets"],
  "kubectl.kubernetes.io/last-applied-configuration",
]);

/** What holds a secret, by its name. */
const NAME =
  /(?:password|passwd|secret|token|api-?key|access-?key|private-?key|key-data)/
    .source;

/** A field or a flag of such a name. */
const SECRET_NAME = new RegExp(`^[\\w./-]*${NAME}$`, "i");

/** Between a name and its value. Bounded: a log of spaces alone would take hours. */
const GAP = /\s{0,8}/.source;

/** In JSON that is a text of other JSON, quotes have backslashes. */
const QUOTE = /\\{0,4}["']/.source;

/** What is between a name and its value. */
const SIGN = `(?:${QUOTE})?${GAP}[=:]${GAP}`;

/** A flag of such a name, and what is between it and its value. */
const FLAG = `(?<![\\w-])--?[\\w-]*${NAME}\\s${GAP}`;

/** A value up to the quote that began it, at most of one line. */
const QUOTED = String.raw`(?:(?!\k<quote>)(?:\\.|[^\n])){1,1024}`;

/** Numbers and the like: counts, and fields that say whether there is a secret. */
const PLAIN = /(?:true|false|null|\d+)(?=[\s"',}\\]|$)/.source;

/**
 * Tokens by their form (RFC 7519, RFC 6750), keys, passwords in URLs (RFC 3986), and values of what is called a secret. Each takes a
 * time in proportion to the text: a pod's log may be made to take longer.
 */
const SECRETS: readonly RegExp[] = [
  // With headers, as encrypted ones have (RFC 1421); more than the longest where the end is missing.
  /(?<=-----BEGIN [A-Z ]*PRIVATE KEY-----)(?:(?!-----)[^]){1,8192}/g,
  /(?<=\b[a-z][a-z0-9+.-]*:\/\/[^\s/?#@:"']*:)[^\s/?#"']+(?=@)/gi,
  // As long as tokens are that stand for a user.
  /(?<=:\/\/)[\w-]{20,}(?=@)/g,
  new RegExp(
    `(?<=\\bauthorization${SIGN}\\[?(?:${QUOTE})?basic\\s{1,8})[\\w.~+/-]+=*`,
    "gi",
  ),
  /(?<![\w-])eyJ[\w-]+\.[\w-]+\.[\w-]*/g,
  /(?<=\bbearer\s{1,8})[\w.~+/-]+=*/gi,
  new RegExp(`(?<=${NAME}${SIGN}(?<quote>${QUOTE}))${QUOTED}`, "gi"),
  new RegExp(`(?<=${NAME}${SIGN})(?!${PLAIN})[^\\s"',}\\\\][^\\s"',}]*`, "gi"),
  new RegExp(`(?<=${FLAG}(?<quote>${QUOTE}))${QUOTED}`, "gi"),
  new RegExp(`(?<=${FLAG})[^\\s"',}\\\\-][^\\s"',}]*`, "gi"),
  /\b(?:AKIA|ASIA)[A-Z0-9]{16}\b/g,
];

/** An object without environments. */
export function withoutSecrets(value: unknown): unknown {
  if (Array.isArray(value)) {
    // A list of arguments has the value of a flag behind it.
    return value.map((item, i) =>
      withoutSecrets(named(item, value[i - 1], /^-/))
    );
  }
  if (typeof value === "string") return scrub(value);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).filter(([key]) => !DROPPED.has(key))
      .map(([key, item]) => [key, withoutSecrets(named(item, key))]),
  );
}

/** The value of what has this name: of a secret nothing is shown. */
function named(value: unknown, name: unknown, form: RegExp = /^/): unknown {
  const isSecret = typeof value === "string" && typeof name === "string" &&
    form.test(name) && SECRET_NAME.test(name);
  return isSecret ? REMOVED : value;
}

/** The text without what looks like a token or a password. */
export function scrub(text: string): string {
  return SECRETS.reduce(
    (rest, secret) => rest.replaceAll(secret, REMOVED),
    text,
  );
}
