import assert from "node:assert/strict";
import { AwsError } from "./errors.ts";

function refusal(code: string, { status = 400, reason = "" } = {}): AwsError {
  const [call, peer, service] = ["AssignPrivateIpAddresses", "EC2", "ec2"];
  return new AwsError({ call, peer, service, code, status, reason });
}

Deno.test("AwsError says by code and status what may be done", () => {
  const cases: readonly [string, number, Partial<AwsError>][] = [
    ["RequestLimitExceeded", 503, { isThrottled: true, isTransient: false }],
    ["Throttling", 400, { isThrottled: true }],
    ["HTTP status 429", 429, { isThrottled: true }],
    ["InternalError", 500, { isTransient: true, isThrottled: false }],
    ["Unavailable", 503, { isTransient: true }],
    ["UnauthorizedOperation", 403, { isDenied: true, hasBadKeys: false }],
    ["RequestExpired", 400, { hasBadKeys: true, isDenied: false }],
    ["AuthFailure", 401, { hasBadKeys: true, isNotFound: false }],
    ["InvalidNetworkInterfaceID.NotFound", 400, { isNotFound: true }],
    ["InsufficientCidrBlocks", 400, {
      isThrottled: false,
      isTransient: false,
      isDenied: false,
      hasBadKeys: false,
    }],
  ];
  for (const [code, status, expected] of cases) {
    const error = refusal(code, { status });
    for (const [name, value] of Object.entries(expected)) {
      assert.equal(Reflect.get(error, name), value, `${code} ${name}`);
    }
  }
});

Deno.test("AwsError knows each code of too many calls, of a refusal and of bad keys", () => {
  const kinds = {
    isThrottled: [
      ...["EC2ThrottledException", "RequestLimitExceeded", "RequestThrottled"],
      ...["RequestThrottledException", "ThrottledException", "Throttling"],
      ...["ThrottlingException", "TooManyRequestsException"],
    ],
    isDenied: [
      ...["AccessDenied", "AccessDeniedException", "UnauthorizedOperation"],
    ],
    hasBadKeys: [
      ...["AuthFailure", "ExpiredToken", "ExpiredTokenException"],
      ...["InvalidClientTokenId", "RequestExpired"],
      ...["UnrecognizedClientException"],
    ],
  };
  const names = Object.keys(kinds);
  for (const [kind, codes] of Object.entries(kinds)) {
    for (const code of codes) {
      const error = refusal(code);
      const found = names.filter((name) => Reflect.get(error, name) === true);
      assert.deepEqual(found, [kind], code);
    }
  }
});

Deno.test("AwsError says what to do", () => {
  const reason = "The specified subnet does not have enough addresses.";
  assert.equal(
    refusal("InsufficientFreeAddressesInSubnet", { reason }).message,
    "Cannot call AssignPrivateIpAddresses of EC2: " +
      "InsufficientFreeAddressesInSubnet: The specified subnet does not have " +
      "enough addresses; free addresses of the subnet, or use a larger one",
  );
  assert.equal(refusal("SomethingNew").advice, undefined);
});

Deno.test("AwsError has one line of what AWS says, however long that is", () => {
  const reason = "encoded\n  " + "x".repeat(10_000);
  const { message } = refusal("UnauthorizedOperation", { reason });
  assert.ok(message.length < 800);
  assert.match(message, /: encoded x+…; allow ec2:AssignPrivateIpAddresses in/);
});
