import assert from "node:assert/strict";
import { certificateTrouble } from "./tls_trouble.ts";

Deno.test("certificateTrouble() tells whose certificate is refused", () => {
  const cases = [
    ["invalid peer certificate: UnknownIssuer", true, "server"],
    [
      "invalid peer certificate: certificate not valid for name",
      false,
      "server",
    ],
    ["received fatal alert: UnknownCA", true, "client"],
    ["received fatal alert: CertificateExpired", true, "client"],
    ["received fatal alert: BadCertificate", false, "no client"],
    ["received fatal alert: CertificateRequired", false, "no client"],
    ["received fatal alert: ProtocolVersion", true, undefined],
    ["Connection refused (os error 111)", true, undefined],
  ] as const;
  for (const [message, hasIdentity, expected] of cases) {
    assert.equal(certificateTrouble(message, { hasIdentity }), expected);
  }
});
