import assert from "node:assert/strict";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { AnySchema } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { encodeRpcStatus } from "../../grpc/mod.ts";
import {
  AddResponseSchema,
  CNI,
  CNIArgsSchema,
  CNIErrorSchema,
  cniRpcError,
} from "../mod.ts";
import {
  CNI_ERROR_TYPE_URL,
  type CniArgs,
  decodeAddResponse,
  decodeCniError,
  encodeCniArgs,
  encodeCniError,
  methodPath,
} from "./mod.ts";

const text = fc.string({ maxLength: 40, unit: "binary" });
// A key of digits alone would change its place in an object.
const key = fc.stringMatching(/^[A-Z_][A-Z0-9_]{0,10}$/);

const anyArgs: fc.Arbitrary<CniArgs> = fc.record({
  containerId: text,
  netns: text,
  ifname: text,
  args: fc.dictionary(key, text, { noNullPrototype: true }),
  path: text,
  stdinData: fc.uint8Array({ maxLength: 2000 }),
  ips: fc.array(text, { maxLength: 4 }),
  interfaces: fc.dictionary(key, fc.boolean(), { noNullPrototype: true }),
  validAttachments: fc.array(
    fc.record({ containerId: text, ifname: text }),
    { maxLength: 4 },
  ),
});

Deno.test("encodeCniArgs() writes the bytes of the generated code", () => {
  fc.assert(fc.property(anyArgs, (args) => {
    const expected = toBinary(
      CNIArgsSchema,
      create(CNIArgsSchema, {
        ...args,
        args: { ...args.args },
        interfaces: { ...args.interfaces },
        ips: [...args.ips],
        validAttachments: [...args.validAttachments],
      }),
    );
    assert.deepEqual(encodeCniArgs(args), expected);
  }));
});

Deno.test("decodeAddResponse() reads the bytes of the generated code", () => {
  fc.assert(fc.property(text, (json) => {
    const result = new TextEncoder().encode(json);
    const message = create(AddResponseSchema, { result });
    // Bytes with a byte order mark are not JSON; TextDecoder drops the mark.
    fc.pre(!json.startsWith("\ufeff"));
    assert.equal(
      decodeAddResponse(toBinary(AddResponseSchema, message)),
      new TextDecoder().decode(result),
    );
  }));
});

Deno.test("encodeCniError() writes the bytes of the generated code", () => {
  const anyError = fc.record({ code: fc.nat(), msg: text, details: text });
  fc.assert(fc.property(anyError, (error) => {
    const bytes = encodeCniError(error);
    const { code, msg, details } = fromBinary(CNIErrorSchema, bytes);
    assert.deepEqual({ code, msg, details }, wellFormed(error));
  }));
});

/** Lone surrogates become U+FFFD in UTF-8. */
function wellFormed(error: { code: number; msg: string; details: string }) {
  const { code, msg, details } = error;
  return { code, msg: msg.toWellFormed(), details: details.toWellFormed() };
}

Deno.test("SV-14: decodeCniError() reads what cniRpcError() says", () => {
  const { statusDetails, code, message } = cniRpcError("no address left", {
    code: 8,
    cniCode: 11,
    details: "pool default",
  });
  assert.equal(code, 8);
  assert.equal(message, "no address left");
  assert.ok(statusDetails);
  assert.deepEqual(decodeCniError(statusDetails), {
    code: 11,
    msg: "no address left",
    details: "pool default",
  });
});

/** A google.rpc.Status with details of these types, each without contents. */
function statusWith(...typeUrls: string[]): Uint8Array {
  const details = typeUrls.map((typeUrl) => ({
    typeUrl,
    value: new Uint8Array(),
  }));
  return encodeRpcStatus({ code: 13, message: "x", details });
}

Deno.test("W42: decodeCniError() is undefined unless one CNIError is there", () => {
  const foreign = "type.googleapis.com/google.rpc.ErrorInfo";
  assert.equal(decodeCniError(statusWith()), undefined);
  assert.equal(decodeCniError(statusWith(foreign)), undefined);
  assert.equal(
    decodeCniError(statusWith(CNI_ERROR_TYPE_URL, foreign)),
    undefined,
  );
  assert.deepEqual(
    decodeCniError(statusWith("example.org/pkg.cnirpc.CNIError")),
    {
      code: 0,
      msg: "",
      details: "",
    },
  );
});

Deno.test("decodeCniError() refuses what is no google.rpc.Status", () => {
  for (const bytes of ["ff", "0a", "0aff", "0f", "08ffffffffffffffffffff01"]) {
    assert.throws(() => decodeCniError(Uint8Array.fromHex(bytes)), SyntaxError);
  }
});

Deno.test("CNI_ERROR_TYPE_URL is what google.protobuf.Any has", () => {
  const any = create(AnySchema, {
    typeUrl: `type.googleapis.com/${CNIErrorSchema.typeName}`,
  });
  assert.equal(any.typeUrl, CNI_ERROR_TYPE_URL);
});

Deno.test("methodPath() has the names of the service", () => {
  assert.deepEqual(
    (["Add", "Del", "Check", "Gc", "Status"] as const).map(methodPath),
    CNI.methods.map((method) => `/${CNI.typeName}/${method.name}`),
  );
});
