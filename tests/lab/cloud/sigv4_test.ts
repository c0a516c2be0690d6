import assert from "node:assert/strict";
import { Ec2Error } from "./errors.ts";
import { checkSignature, signatureOf } from "./sigv4.ts";
import { formOf, KEYS, type RequestChanges, signedRequest } from "./testing.ts";

// Of the AWS Signature Version 4 test suite: its secret, and what it expects.
const SUITE = {
  secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
  date: "20150830",
  time: "20150830T123600Z",
  region: "us-east-1",
  service: "service",
};
const VANILLA = { host: "example.amazonaws.com", "x-amz-date": SUITE.time };

Deno.test("signatureOf() gives what AWS' test suite expects", () => {
  const cases = [
    {
      name: "get-vanilla",
      request: { method: "GET", query: "", body: "" },
      headers: VANILLA,
      signature:
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    },
    {
      name: "get-vanilla-query-order-key-case",
      request: {
        method: "GET",
        query: "Param2=value2&Param1=value1",
        body: "",
      },
      headers: VANILLA,
      signature:
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    },
    {
      name: "post-x-www-form-urlencoded",
      request: { method: "POST", query: "", body: "Param1=value1" },
      headers: {
        "content-type": "application/x-www-form-urlencoded",
        ...VANILLA,
      },
      signature:
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    },
  ];
  for (const { name, request, headers, signature } of cases) {
    const signedHeaders = Object.keys(headers);
    const whole = { ...request, path: "/", headers: new Headers(headers) };
    const options = { ...SUITE, signedHeaders };
    assert.equal(signatureOf(whole, options), signature, name);
  }
});

const NOW = Date.UTC(2026, 0, 2, 3, 4, 5);

function check(changes: RequestChanges): string {
  const form = formOf("DescribeSubnets");
  const url = "http://ec2.test/";
  const request = signedRequest(url, { form, now: NOW, ...changes });
  const expiresAt = NOW + 1_000;
  try {
    return checkSignature(request, {
      region: "eu-test-1",
      service: "ec2",
      now: NOW,
      find: (id) =>
        id === "AKIAOLD"
          ? { ...KEYS, accessKeyId: id, expiresAt: NOW }
          : id === "ASIA"
          ? { ...KEYS, accessKeyId: id, sessionToken: "token", expiresAt }
          : id === KEYS.accessKeyId
          ? KEYS
          : undefined,
    }).accessKeyId;
  } catch (error) {
    assert(error instanceof Ec2Error);
    return `${error.status} ${error.code}`;
  }
}

Deno.test("checkSignature() returns who has signed", () => {
  assert.equal(check({}), KEYS.accessKeyId);
  assert.equal(check({ now: NOW - 299_000 }), KEYS.accessKeyId);
  const session = { ...KEYS, accessKeyId: "ASIA", sessionToken: "token" };
  assert.equal(check({ credentials: session }), "ASIA");
});

Deno.test("checkSignature() refuses what is not signed as it should be", () => {
  const of = (changes: Partial<typeof KEYS>) => ({
    credentials: { ...KEYS, ...changes },
  });
  const cases: readonly (readonly [string, RequestChanges, string])[] = [
    ["unsigned", { unsigned: true }, "403 MissingAuthenticationToken"],
    [
      "not the form",
      { headers: { authorization: "Basic x" } },
      "401 AuthFailure",
    ],
    ["another body", { body: "Action=DeleteAll" }, "401 AuthFailure"],
    ["another secret", of({ secretAccessKey: "other" }), "401 AuthFailure"],
    ["an unknown key", of({ accessKeyId: "AKIAX" }), "401 AuthFailure"],
    ["another region", { region: "us-east-1" }, "401 AuthFailure"],
    ["token missing", of({ accessKeyId: "ASIA" }), "401 AuthFailure"],
    ["token to spare", of({ sessionToken: "token" }), "401 AuthFailure"],
    [
      "another token",
      of({ accessKeyId: "ASIA", sessionToken: "old" }),
      "401 AuthFailure",
    ],
    [
      "token unsigned",
      { headers: { "x-amz-security-token": "t" } },
      "401 AuthFailure",
    ],
    [
      "a header unsigned",
      { headers: { "x-amz-target": "t" } },
      "401 AuthFailure",
    ],
    ["another host", { headers: { host: "else.test" } }, "401 AuthFailure"],
    [
      "credentials expired",
      of({ accessKeyId: "AKIAOLD" }),
      "400 RequestExpired",
    ],
    ["too old", { now: NOW - 301_000 }, "400 RequestExpired"],
    ["too early", { now: NOW + 301_000 }, "400 RequestExpired"],
    ["no date", { headers: { "x-amz-date": "now" } }, "400 RequestExpired"],
  ];
  for (const [name, changes, expected] of cases) {
    assert.equal(check(changes), expected, name);
  }
});
