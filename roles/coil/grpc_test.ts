import assert from "node:assert/strict";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { CniError, type NetConf } from "../../lib/cni/mod.ts";
import {
  AddResponseSchema,
  CNI,
  type CNIArgs,
  CNIArgsSchema,
  encodeCniError,
} from "../../lib/cnirpc/mod.ts";
import {
  GrpcError,
  type GrpcService,
  serve,
  StatusCode,
} from "../../lib/grpc/mod.ts";
import { NoAnswerError, type PluginCall } from "../../lib/plugin/mod.ts";
import { askByGrpc } from "./grpc.ts";

const REQUEST = {
  containerId: "cid0",
  netns: "/run/netns/b0",
  ifname: "eth0",
  args: { K8S_POD_NAME: "pod", IS_CHAINED: "false" },
  path: "/opt/cni/bin",
  stdinData: new TextEncoder().encode("{}"),
  ips: ["10.1.2.9"],
  interfaces: { eth0: true },
  validAttachments: [{ containerId: "cid1", ifname: "eth0" }],
};

const CONF: NetConf = { name: "n", type: "coil", cniVersion: "1.0.0", raw: {} };

const RESULT = { ips: [{ address: "10.1.2.3/32" }] };

type Handle = (method: string, args: CNIArgs) => Promise<unknown>;

/** Asks a gRPC server that answers with a result of ADD. */
async function ask(
  command: PluginCall["command"],
  handle: Handle,
  { cniVersion = CONF.cniVersion } = {},
) {
  const directory = await Deno.makeTempDir();
  const socketPath = `${directory}/coild.sock`;
  const end = new AbortController();
  const service: GrpcService = {
    definition: CNI,
    handle: async ({ method, request }) => {
      const result = await handle(method, fromBinary(CNIArgsSchema, request));
      const json = new TextEncoder().encode(JSON.stringify(result));
      const message = create(AddResponseSchema, { result: json });
      return toBinary(AddResponseSchema, message);
    },
  };
  const { signal } = end;
  const { finished } = await serve({
    socketPath,
    service,
    signal,
    graceMs: 0,
  });
  const conf = { ...CONF, cniVersion };
  try {
    return await askByGrpc({ command, conf, socketPath, request: REQUEST });
  } finally {
    end.abort();
    await finished;
    await Deno.remove(directory, { recursive: true });
  }
}

function refuse(code: number, statusDetails?: Uint8Array): Handle {
  return () => Promise.reject(new GrpcError("no", { code, statusDetails }));
}

Deno.test("askByGrpc() hands over the whole request, and gives the result in the configured version", async () => {
  const seen: unknown[] = [];
  const answer = await ask("ADD", (method, { $typeName, ...args }) => {
    const validAttachments = args.validAttachments.map((
      { containerId, ifname },
    ) => ({ containerId, ifname }));
    seen.push($typeName, method, { ...args, validAttachments });
    return Promise.resolve({ ...RESULT, cniVersion: "1.0.0" });
  }, { cniVersion: "0.4.0" });
  assert.deepEqual(seen, ["pkg.cnirpc.CNIArgs", "Add", REQUEST]);
  assert.equal(answer.exitCode, 0);
  assert.deepEqual(JSON.parse(answer.stdout), {
    cniVersion: "0.4.0",
    dns: {},
    ips: [{ version: "4", ...RESULT.ips[0] }],
  });
});

for (
  const [command, method] of [
    ["DEL", "Del"],
    ["CHECK", "Check"],
    ["GC", "Gc"],
    ["STATUS", "Status"],
  ] as const
) {
  Deno.test(`askByGrpc() prints nothing for ${command}`, async () => {
    const seen: string[] = [];
    const answer = await ask(command, (called) => {
      seen.push(called);
      return Promise.resolve(RESULT);
    });
    assert.deepEqual(seen, [method]);
    assert.deepEqual(answer, { stdout: "", exitCode: 0 });
  });
}

Deno.test("askByGrpc() gives coild's own error", async () => {
  const cause = { code: 7, msg: "bad", details: "why" };
  await assert.rejects(
    ask("ADD", refuse(StatusCode.INTERNAL, encodeCniError(13, cause))),
    (error) => {
      assert.ok(error instanceof CniError);
      assert.equal(error.message, "bad");
      assert.equal(error.code, 7);
      assert.equal(error.details, "why");
      return true;
    },
  );
});

for (
  const [what, details] of [
    ["no details", undefined],
    ["details of another kind", new Uint8Array([255])],
    ["no detail of the contract", new Uint8Array()],
  ] as const
) {
  Deno.test(`askByGrpc() says that coild did not answer upon an error with ${what}`, async () => {
    await assert.rejects(
      ask("CHECK", refuse(StatusCode.UNIMPLEMENTED, details)),
      (error) => {
        assert.ok(error instanceof NoAnswerError);
        assert.equal(error.message, "coild did not answer");
        assert.match(error.details, /^socket ".*\/coild\.sock": no; check/);
        return true;
      },
    );
  });
}

Deno.test("askByGrpc() needs no GC and no STATUS of upstream's coild, but says what else fails there", async () => {
  for (const command of ["GC", "STATUS"] as const) {
    const answer = await ask(command, refuse(StatusCode.UNIMPLEMENTED));
    assert.deepEqual(answer, { stdout: "", exitCode: 0 });
    await assert.rejects(
      ask(command, refuse(StatusCode.UNAVAILABLE)),
      NoAnswerError,
    );
  }
});

Deno.test("askByGrpc() does not wait for ever", async () => {
  const directory = await Deno.makeTempDir();
  const socketPath = `${directory}/coild.sock`;
  using _silent = Deno.listen({ transport: "unix", path: socketPath });
  await assert.rejects(
    askByGrpc(
      { command: "DEL", conf: CONF, socketPath, request: REQUEST },
      { patienceMs: 50 },
    ),
    (error) => {
      assert.ok(error instanceof NoAnswerError);
      assert.match(error.details, /coild hangs/);
      return true;
    },
  );
  await Deno.remove(directory, { recursive: true });
});
