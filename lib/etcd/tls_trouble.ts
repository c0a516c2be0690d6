/**
 * Whose certificate a connection failed for:
 *
 * - `server`: we do not trust the server's
 * - `client`: the server does not accept ours
 * - `no client`: the server wants one, and we have shown none
 */
export type CertificateTrouble = "server" | "client" | "no client";

/** Alerts of RFC 8446, section 6.2, by which a server refuses a certificate, in the words of Deno's TLS. */
const REFUSALS: ReadonlySet<string> = new Set([
  "BadCertificate",
  "UnsupportedCertificate",
  "CertificateRevoked",
  "CertificateExpired",
  "CertificateUnknown",
  "UnknownCA",
  "AccessDenied",
]);

/**
 * Reads it from the message of a TLS error, which is all that Deno gives. Undefined when it is about something else.
 */
export function certificateTrouble(
  message: string,
  options: { readonly hasIdentity: boolean },
): CertificateTrouble | undefined {
  if (message.includes("invalid peer certificate")) return "server";
  const [, alert = ""] = /received fatal alert: (\w+)/.exec(message) ?? [];
  if (alert === "CertificateRequired") return "no client";
  // Before TLS 1.3 a missing certificate is a bad one.
  if (REFUSALS.has(alert)) return options.hasIdentity ? "client" : "no client";
  return undefined;
}
