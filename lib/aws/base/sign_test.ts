// AWS' published examples: the Signature Version 4 test suite, all of which has
// one key, date, region and service, and the example of the signing guide.
import assert from "node:assert/strict";
import { Credentials, type HttpRequest } from "./sign.ts";

const KEYS = {
  accessKeyId: "AKIDEXAMPLE",
  secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
};
const SCOPE = {
  region: "us-east-1",
  datetime: "20150830T123600Z",
};
const FORM = "application/x-www-form-urlencoded";
const URL_OF_SUITE = "https://example.amazonaws.com/";
/** The session token of the suite's `post-sts-header-*`. */
const SESSION_TOKEN = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4" +
  "HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpK" +
  "Pi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp7" +
  "5YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+s" +
  "cqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";

interface Vector {
  readonly name: string;
  readonly request: HttpRequest;
  readonly service?: string;
  readonly sessionToken?: string;
  readonly signedHeaders: string;
  readonly signature: string;
}

const VECTORS: readonly Vector[] = [
  {
    name: "get-vanilla",
    request: { method: "GET", url: URL_OF_SUITE, headers: {} },
    signedHeaders: "host;x-amz-date",
    signature:
      "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
  },
  {
    name: "get-vanilla-query-order-key-case",
    request: {
      method: "GET",
      url: `${URL_OF_SUITE}?Param2=value2&Param1=value1`,
      headers: {},
    },
    signedHeaders: "host;x-amz-date",
    signature:
      "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
  },
  {
    name: "post-vanilla",
    request: { method: "POST", url: URL_OF_SUITE, headers: {} },
    signedHeaders: "host;x-amz-date",
    signature:
      "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
  },
  {
    name: "post-header-key-sort",
    request: {
      method: "POST",
      url: URL_OF_SUITE,
      headers: { "My-Header1": "value1" },
    },
    signedHeaders: "host;my-header1;x-amz-date",
    signature:
      "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
  },
  {
    name: "post-sts-header-before",
    request: { method: "POST", url: URL_OF_SUITE, headers: {} },
    sessionToken: SESSION_TOKEN,
    signedHeaders: "host;x-amz-date;x-amz-security-token",
    signature:
      "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
  },
  {
    name: "post-x-www-form-urlencoded",
    request: {
      method: "POST",
      url: URL_OF_SUITE,
      headers: { "Content-Type": FORM },
      body: "Param1=value1",
    },
    signedHeaders: "content-type;host;x-amz-date",
    signature:
      "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
  },
  {
    name: "ListUsers of IAM, in the guide",
    service: "iam",
    request: {
      method: "GET",
      url: "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08",
      headers: { "Content-Type": `${FORM}; charset=utf-8` },
    },
    signedHeaders: "content-type;host;x-amz-date",
    signature:
      "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
  },
];

for (const vector of VECTORS) {
  Deno.test(`sign() has the signature of AWS' vector ${vector.name}`, async () => {
    const { sessionToken } = vector;
    const credentials = new Credentials({ ...KEYS, sessionToken });
    const { service = "service" } = vector;
    const { headers } = await credentials.sign(vector.request, {
      ...SCOPE,
      service,
    });
    assert.equal(
      headers["authorization"],
      `AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/${service}/` +
        `aws4_request, SignedHeaders=${vector.signedHeaders}, ` +
        `Signature=${vector.signature}`,
    );
    assert.equal(headers["x-amz-date"], "20150830T123600Z");
    assert.equal(headers["x-amz-security-token"], sessionToken);
  });
}

Deno.test("sign() goes by the machine's clock unless another time is given", async () => {
  const { headers } = await new Credentials(KEYS).sign(
    { method: "GET", url: URL_OF_SUITE, headers: {} },
    { service: "ec2", region: "eu-west-1" },
  );
  const [, y, mo, d, h, mi, s] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/
    .exec(headers["x-amz-date"] ?? "") ?? [];
  const signedMs = Date.parse(`${y}-${mo}-${d}T${h}:${mi}:${s}Z`);
  assert.ok(Math.abs(Date.now() - signedMs) < 60_000);
  assert.match(
    headers["authorization"] ?? "",
    /Credential=AKIDEXAMPLE\/\d{8}\/eu-west-1\/ec2\/aws4_request,/,
  );
});

Deno.test("Credentials show neither secret key nor session token", () => {
  const credentials = new Credentials({ ...KEYS, sessionToken: "token-text" });
  const shown = Deno.inspect(credentials, { showHidden: true, depth: 9 }) +
    JSON.stringify(credentials) + JSON.stringify({ ...credentials });
  assert.match(shown, /AKIDEXAMPLE/);
  assert.doesNotMatch(shown, /wJalr|token-text/);
});

Deno.test("Credentials refuse keys that no header can have, without showing them", () => {
  const bad: readonly [keyof typeof KEYS | "sessionToken", string][] = [
    ["accessKeyId", "hid\nden"],
    ["secretAccessKey", "hid den"],
    ["sessionToken", "hid\u0000den"],
    ["sessionToken", ""],
  ];
  for (const [key, text] of bad) {
    assert.throws(
      () => new Credentials({ ...KEYS, [key]: text }),
      (error) => {
        assert.ok(error instanceof SyntaxError);
        assert.doesNotMatch(Deno.inspect(error), /hid.?den/s);
        return true;
      },
    );
  }
});
