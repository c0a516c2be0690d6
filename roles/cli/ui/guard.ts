/** Where the page is, and the secret that its paths begin with. */
export interface Door {
  readonly port: number;
  readonly secret: string;
}

/** Bytes of the secret: as many as a key of AES-192 has. */
const SECRET_BYTES = 24;

/** A new secret, as it can be in a path. */
export function newSecret(): string {
  return crypto.getRandomValues(new Uint8Array(SECRET_BYTES))
    .toBase64({ alphabet: "base64url" });
}

/** The URL of the page. */
export function urlOf({ port, secret }: Door): string {
  return `http://127.0.0.1:${port}/${secret}/`;
}

/**
 * The path below the secret; a response for a request that is not answered.
 *
 * A page of another site can send requests here. Its browser names that site in `Origin`, or, after the site's name was
 * changed to mean 127.0.0.1 (DNS rebinding), in `Host`; and it does not know the secret.
 */
export function admit(request: Request, door: Door): string | Response {
  const { headers, method, url } = request;
  // Browsers leave port 80 out.
  const hosts = ["127.0.0.1", "localhost"].map((name) =>
    new URL(`http://${name}:${door.port}`).host
  );
  if (!hosts.includes(headers.get("host") ?? "")) {
    return refusal(403, "this name is not served here");
  }
  const origin = headers.get("origin");
  if (origin !== null && !hosts.some((host) => origin === `http://${host}`)) {
    return refusal(403, "other sites are not answered");
  }
  if (method !== "GET") {
    return refusal(405, "this page can only be read", { allow: "GET" });
  }
  const [, secret = "", ...path] = new URL(url).pathname.split("/");
  if (!isSame(secret, door.secret)) {
    return refusal(404, "the URL that coil ui has printed is needed");
  }
  return path.join("/");
}

/** Takes as long for a text that begins as the other does. */
function isSame(text: string, secret: string): boolean {
  if (text.length !== secret.length) return false;
  let difference = 0;
  for (let i = 0; i < secret.length; i++) {
    difference |= text.charCodeAt(i) ^ secret.charCodeAt(i);
  }
  return difference === 0;
}

/** Says why a request is not answered. */
export function refusal(
  status: number,
  reason: string,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return guarded(`${reason}\n`, "text/plain; charset=utf-8", {
    status,
    headers,
  });
}

/** Only what comes from here, no plugin, no frame, no form, and no text that becomes markup. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const HEADERS = {
  "cache-control": "no-store",
  "content-security-policy": POLICY,
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

/** A response that a browser keeps to this page, and does not store. */
export function guarded(
  body: BodyInit,
  type: string,
  { status = 200, headers = {} }: {
    readonly status?: number;
    readonly headers?: Readonly<Record<string, string>>;
  } = {},
): Response {
  return new Response(body, {
    status,
    headers: { ...HEADERS, ...headers, "content-type": type },
  });
}
