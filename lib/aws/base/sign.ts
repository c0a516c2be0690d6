import { AwsV4Signer } from "aws4fetch";

/** What HTTP allows in a field's value, without spaces: keys and tokens have none. */
const PRINTABLE = /^[\x21-\x7e]+$/;

/** A request as it is sent. */
export interface HttpRequest {
  readonly method: "GET" | "POST" | "PUT";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

/** For which part of AWS a signature is. */
export interface SigningScope {
  /** Name of the service in signatures, for example "ec2". */
  readonly service: string;
  readonly region: string;
  /** As `20150830T123600Z`. Default: now, by the machine's clock. */
  readonly datetime?: string | undefined;
}

/** Keys as AWS issues them. */
export interface KeyTexts {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

/**
 * Keys that sign requests. Secret key and session token are private: neither a log nor an inspected error can have
 * them.
 */
export class Credentials {
  /** Not a secret: AWS prints it in its own records. */
  readonly accessKeyId: string;
  readonly #secretAccessKey: string;
  readonly #sessionToken: string | undefined;

  /** @throws {SyntaxError} without any part of the text, when a part is empty or no HTTP header can have it */
  constructor({ accessKeyId, secretAccessKey, sessionToken }: KeyTexts) {
    checkPrintable("access key ID", accessKeyId);
    checkPrintable("secret access key", secretAccessKey);
    if (sessionToken !== undefined) {
      checkPrintable("session token", sessionToken);
    }
    this.accessKeyId = accessKeyId;
    this.#secretAccessKey = secretAccessKey;
    this.#sessionToken = sessionToken;
  }

  /** Signs by Signature Version 4, in the header `Authorization`. */
  async sign(request: HttpRequest, scope: SigningScope): Promise<HttpRequest> {
    const { datetime, ...of } = scope;
    const signer = new AwsV4Signer({
      method: request.method,
      url: request.url,
      headers: { ...request.headers },
      accessKeyId: this.accessKeyId,
      secretAccessKey: this.#secretAccessKey,
      // Content-Type too, as AWS' own tools do.
      allHeaders: true,
      ...of,
      ...(request.body === undefined ? {} : { body: request.body }),
      ...(datetime === undefined ? {} : { datetime }),
      ...(this.#sessionToken === undefined
        ? {}
        : { sessionToken: this.#sessionToken }),
    });
    const { headers } = await signer.sign();
    return { ...request, headers: Object.fromEntries(headers) };
  }
}

/** Checks a secret before it becomes a header: `fetch` has a bad header's value in its error. */
export function checkPrintable(what: string, text: string): void {
  if (PRINTABLE.test(text)) return;
  throw new SyntaxError(
    text === ""
      ? `Cannot use ${what}: it is empty`
      : `Cannot use ${what}: it has characters that no HTTP header can have`,
  );
}
