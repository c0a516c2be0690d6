/**
 * Signatures of AWS, version 4, by node:crypto alone, so that a client which
 * signs with something else is checked independently.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { Ec2Error } from "./errors.ts";

/** A request as it came. */
export interface SignedRequest {
  readonly method: string;
  /** As in the request line, without what comes behind "?". */
  readonly path: string;
  /** Behind "?", or empty. */
  readonly query: string;
  readonly headers: Headers;
  readonly body: string;
}

/** What signs. */
export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
  /** In ms since 1970; unlimited without it. */
  readonly expiresAt?: number | undefined;
}

/** What a signature is for. */
interface Scope {
  readonly date: string;
  readonly region: string;
  readonly service: string;
}

/** What a signature covers besides the request. */
export interface SigningOptions extends Scope {
  readonly secretAccessKey: string;
  /** As in the header `x-amz-date`: 20150830T123600Z. */
  readonly time: string;
  readonly signedHeaders: readonly string[];
}

const ALGORITHM = "AWS4-HMAC-SHA256";
/** How far the date of a request may be from ours. */
const SKEW_MS = 300_000;

/** The signature as the header has it. */
export function signatureOf(
  request: SignedRequest,
  options: SigningOptions,
): string {
  const { secretAccessKey, time, date, region, service } = options;
  const text = [
    ALGORITHM,
    time,
    `${date}/${region}/${service}/aws4_request`,
    sha256(canonical(request, options.signedHeaders)),
  ].join("\n");
  let key: Uint8Array = Buffer.from(`AWS4${secretAccessKey}`);
  for (const part of [date, region, service, "aws4_request"]) {
    key = hmac(key, part);
  }
  return Buffer.from(hmac(key, text)).toString("hex");
}

function canonical(
  request: SignedRequest,
  signedHeaders: readonly string[],
): string {
  const headers = signedHeaders.map((name) =>
    `${name}:${(request.headers.get(name) ?? "").trim().replaceAll(/ +/g, " ")}`
  );
  const query = request.query.split("&").filter((part) => part !== "")
    .map((part) => part.includes("=") ? part : `${part}=`).sort().join("&");
  return [
    request.method,
    request.path,
    query,
    ...headers,
    "",
    signedHeaders.join(";"),
    sha256(request.body),
  ].join("\n");
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function hmac(key: Uint8Array, text: string): Uint8Array {
  return createHmac("sha256", key).update(text).digest();
}

/** What a signature has to match. */
export interface SignatureCheck {
  readonly region: string;
  readonly service: string;
  /** In ms since 1970. */
  readonly now: number;
  /** Credentials of an access key; undefined when there are none. */
  find(accessKeyId: string): Credentials | undefined;
}

const AUTHORIZATION =
  /^AWS4-HMAC-SHA256 Credential=([^/,]+)\/(\d{8})\/([^/,]+)\/([^/,]+)\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/;

/**
 * Returns the credentials that have signed the request.
 *
 * @throws {Ec2Error} when it is not signed, or not by credentials that are valid now
 */
export function checkSignature(
  request: SignedRequest,
  check: SignatureCheck,
): Credentials {
  const header = request.headers.get("authorization");
  if (header === null) {
    throw new Ec2Error(
      "MissingAuthenticationToken",
      "Request is missing Authentication Token",
    );
  }
  const [
    ,
    accessKeyId = "",
    date = "",
    region,
    service,
    names = "",
    sent = "",
  ] = AUTHORIZATION.exec(header) ?? [];
  if (region !== check.region || service !== check.service) {
    throw new Ec2Error(
      "AuthFailure",
      `Credential should be scoped to ${check.region}/${check.service}`,
    );
  }
  const time = checkTime(request, { date, now: check.now });
  const signedHeaders = names.split(";");
  checkSignedHeaders(request.headers, signedHeaders);
  const credentials = check.find(accessKeyId);
  const token = request.headers.get("x-amz-security-token") ?? undefined;
  if (credentials === undefined || credentials.sessionToken !== token) {
    throw new Ec2Error("AuthFailure");
  }
  const { secretAccessKey, expiresAt = Infinity } = credentials;
  const scope = { date, region, service };
  const signing = { ...scope, secretAccessKey, time, signedHeaders };
  const right = Buffer.from(signatureOf(request, signing));
  if (!timingSafeEqual(right, Buffer.from(sent))) {
    throw new Ec2Error("AuthFailure");
  }
  if (expiresAt <= check.now) throw new Ec2Error("RequestExpired");
  return credentials;
}

function checkTime(
  request: SignedRequest,
  expected: { readonly date: string; readonly now: number },
): string {
  const time = request.headers.get("x-amz-date") ?? "";
  const parts = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(time);
  const [year = 0, month = 1, ...rest] = (parts ?? []).slice(1).map(Number);
  const [day, hour, minute, second] = rest;
  const ms = Date.UTC(year, month - 1, day, hour, minute, second);
  const isClose = Math.abs(ms - expected.now) <= SKEW_MS;
  if (!time.startsWith(expected.date) || !isClose) {
    throw new Ec2Error("RequestExpired");
  }
  return time;
}

/** The host, and all that AWS itself has put there, must be covered. */
function checkSignedHeaders(
  headers: Headers,
  signed: readonly string[],
): void {
  const needed = [...headers.keys()].filter((name) =>
    name.startsWith("x-amz-")
  );
  for (const name of ["host", ...needed]) {
    if (!signed.includes(name)) {
      throw new Ec2Error("AuthFailure", `The header ${name} is not signed`);
    }
  }
  const sorted = [...signed].sort();
  if (sorted.join() !== signed.join()) {
    throw new Ec2Error("AuthFailure", "Signed headers are not sorted");
  }
}
