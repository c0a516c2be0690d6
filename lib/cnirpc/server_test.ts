// The contract, served: lib/grpc/server with the CNI service, called by
// grpc-js and by our own client.
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { Client, credentials, type ServiceError } from "@grpc/grpc-js";
import {
  create,
  createFileRegistry,
  fromBinary,
  toBinary,
} from "@bufbuild/protobuf";
import {
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
} from "@bufbuild/protobuf/wkt";
import { callUnary, encodeRpcStatus, GrpcError } from "../grpc/mod.ts";
import {
  type CallContext,
  serve,
  SocketPathError,
  unary,
} from "../grpc/server/mod.ts";
import {
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from "../grpc/server/gen/reflection/v1_pb.ts";
import {
  configureLogging,
  createRegistry,
  getLogger,
} from "../telemetry/mod.ts";
import {
  CNI,
  type CNIArgs,
  CNIArgsSchema,
  cniRpcError,
  requestFields,
} from "./mod.ts";
import {
  type CniArgs,
  decodeCniError,
  encodeCniArgs,
  type MethodName,
  methodPath,
} from "./lean/mod.ts";

type Handler = (args: CNIArgs, context: CallContext) => Promise<unknown>;

/** A server of the CNI service in a directory of its own. */
class TestServer implements AsyncDisposable {
  readonly lines: Record<string, unknown>[] = [];
  readonly registry = createRegistry({ defaults: false });
  readonly #abort = new AbortController();
  readonly #directory = Deno.makeTempDirSync();
  readonly path = `${this.#directory}/s`;
  #finished: Promise<void> | undefined;

  static async start(handler: Handler, graceMs = 1000): Promise<TestServer> {
    const server = new TestServer();
    configureLogging({ write: (line) => server.lines.push(JSON.parse(line)) });
    const none = async (args: CNIArgs, context: CallContext) => {
      await handler(args, context);
      return {};
    };
    const options = { fields: requestFields };
    const { finished } = await serve({
      socketPath: server.path,
      methods: [
        unary(CNI.method.add, async (args, context) => {
          const result = await handler(args, context);
          return result instanceof Uint8Array ? { result } : {};
        }, options),
        unary(CNI.method.del, none, options),
        unary(CNI.method.check, none, options),
        unary(CNI.method.gc, none, options),
        unary(CNI.method.status, none, options),
      ],
      signal: server.#abort.signal,
      registry: server.registry,
      graceMs,
    });
    server.#finished = finished;
    return server;
  }

  async call(
    method: MethodName,
    args: Partial<CniArgs> = {},
    timeoutMs = 5000,
  ) {
    return await callUnary({
      socketPath: this.path,
      method: methodPath(method),
      message: encodeCniArgs({ ...ARGS, ...args }),
      timeoutMs,
    });
  }

  async failure(...args: Parameters<TestServer["call"]>): Promise<GrpcError> {
    const error = await this.call(...args).catch((error: unknown) => error);
    assert.ok(error instanceof GrpcError, String(error));
    return error;
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#finished;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await Deno.remove(this.#directory, { recursive: true });
  }
}

const ARGS: CniArgs = {
  containerId: "cid0",
  netns: "/run/netns/b0",
  ifname: "eth0",
  args: { K8S_POD_NAME: "pod", K8S_POD_NAMESPACE: "ns" },
  path: "/opt/cni/bin",
  stdinData: new TextEncoder().encode("{}"),
  ips: [],
  interfaces: {},
  validAttachments: [],
};

const echo: Handler = (args) => Promise.resolve(args.stdinData);

Deno.test("serve() answers", async () => {
  await using server = await TestServer.start(echo);
  assert.deepEqual([...await server.call("Add")], [10, 2, 123, 125]);
  assert.equal((await server.call("Del")).length, 0);
});

Deno.test("serve() answers a request larger than every window", async () => {
  await using server = await TestServer.start(echo);
  const stdinData = new Uint8Array(1_000_000).fill(7);
  const answer = await server.call("Add", { stdinData });
  assert.equal(answer.length, 1_000_000 + 4);
});

Deno.test("serve() answers many at once", async () => {
  await using server = await TestServer.start(async (args) => {
    await new Promise((resolve) => setTimeout(resolve, 5));
    return args.stdinData;
  });
  const calls = Array.from(
    { length: 100 },
    (_, i) => server.call("Add", { stdinData: Uint8Array.of(i) }),
  );
  const answers = await Promise.all(calls);
  assert.deepEqual(answers.map((a) => a.at(-1)), answers.map((_, i) => i));
});

Deno.test("SV-14: serve() hands over code, message and details", async () => {
  await using server = await TestServer.start(() => {
    throw cniRpcError("später", { code: 14, cniCode: 11, details: "d" });
  });
  const error = await server.failure("Add");
  assert.equal(error.code, 14);
  assert.equal(error.message, "später");
  assert.deepEqual(error.statusDetails && decodeCniError(error.statusDetails), {
    code: 11,
    msg: "später",
    details: "d",
  });
});

Deno.test("W2: serve() survives whatever a handler throws", async () => {
  const thrown: unknown[] = [new Error("boom"), "text", undefined, null];
  await using server = await TestServer.start(() => {
    throw thrown.shift();
  });
  const messages: string[] = [];
  for (let i = thrown.length; i > 0; i--) {
    const error = await server.failure("Check");
    assert.equal(error.codeName, "Unknown");
    messages.push(error.message);
  }
  assert.deepEqual(messages, ["boom", "text", "undefined", "null"]);
});

Deno.test("serve() refuses a message that cannot be decoded", async () => {
  await using server = await TestServer.start(echo);
  const error = await callUnary({
    socketPath: server.path,
    method: methodPath("Add"),
    message: Uint8Array.of(0xff),
  }).catch((error: unknown) => error);
  assert.ok(error instanceof GrpcError);
  assert.equal(error.codeName, "InvalidArgument");
});

Deno.test("serve() aborts the signal when the caller's deadline passes", async () => {
  const aborted = Promise.withResolvers<unknown>();
  await using server = await TestServer.start(
    async (_args, { signal, deadline }) => {
      assert.ok(deadline && deadline.getTime() - Date.now() <= 1_000);
      const { promise, reject } = Promise.withResolvers<never>();
      signal.addEventListener("abort", () => {
        aborted.resolve(signal.reason);
        reject(signal.reason);
      });
      await promise;
    },
  );
  const error = await server.failure("Add", {}, 1_000);
  assert.equal(error.codeName, "DeadlineExceeded");
  assert.ok(await aborted.promise instanceof GrpcError);
});

Deno.test("serve() aborts the signal when the caller goes away", async () => {
  const [started, aborted] = [0, 1].map(() => Promise.withResolvers<unknown>());
  assert.ok(started && aborted);
  await using server = await TestServer.start(async (_args, { signal }) => {
    signal.addEventListener("abort", () => aborted.resolve(signal.reason));
    started.resolve(undefined);
    await aborted.promise;
  });
  const abort = new AbortController();
  const call = callUnary({
    socketPath: server.path,
    method: methodPath("Add"),
    message: encodeCniArgs(ARGS),
    signal: abort.signal,
  });
  await started.promise;
  abort.abort();
  await assert.rejects(call);
  const reason = await aborted.promise;
  assert.ok(reason instanceof GrpcError && reason.codeName === "Canceled");
});

Deno.test("SV-4: serve() logs each call with the request's fields", async () => {
  await using server = await TestServer.start((args) => {
    getLogger("inner").info("inside");
    if (args.containerId === "cid0") return Promise.resolve(args.stdinData);
    throw cniRpcError("no", { code: Number(args.ifname), cniCode: 3 });
  });
  await server.call("Add");
  const [inner, finished] = server.lines;
  const fields = {
    "grpc.request.container_id": "cid0",
    "grpc.request.ifname": "eth0",
    "grpc.request.netns": "/run/netns/b0",
    "grpc.request.pod.name": "pod",
    "grpc.request.pod.namespace": "ns",
  };
  for (const [name, value] of Object.entries(fields)) {
    assert.equal(inner?.[name], value, name);
    assert.equal(finished?.[name], value, name);
  }
  const call = {
    level: "info",
    logger: "grpc",
    msg: "finished call",
    protocol: "grpc",
    "grpc.component": "server",
    "grpc.service": "pkg.cnirpc.CNI",
    "grpc.method": "Add",
    "grpc.method_type": "unary",
    "peer.address": "@",
    "grpc.code": "OK",
  };
  for (const [name, value] of Object.entries(call)) {
    assert.equal(finished?.[name], value, name);
  }
  const isoTime = /^\d{4}-\d\d-\d\dT.*Z$/;
  assert.match(String(finished?.["grpc.start_time"]), isoTime);
  assert.match(String(finished?.["grpc.request.deadline"]), isoTime);
  assert.match(String(finished?.["grpc.time_ms"]), /^\d+\.\d+$/);
  for (const [code, level] of [[5, "info"], [9, "warn"], [13, "error"]]) {
    await server.failure("Del", { containerId: "x", ifname: String(code) });
    const line = server.lines.at(-1);
    assert.equal(line?.["level"], level);
    assert.equal(line?.["grpc.error"], "no");
  }
});

function sample(text: string, name: string, labels: string[]): number {
  const line = text.split("\n").find((candidate) =>
    candidate.startsWith(`${name}{`) &&
    labels.every((label) => candidate.includes(label))
  );
  return line === undefined ? NaN : Number(line.split(" ").at(-1));
}

Deno.test("SV-4: serve() counts calls under upstream's names", async () => {
  await using server = await TestServer.start((args) => {
    if (args.containerId === "cid0") return Promise.resolve(args.stdinData);
    throw cniRpcError("no", { code: 5, cniCode: 3 });
  });
  const add = [
    'grpc_type="unary"',
    'grpc_service="pkg.cnirpc.CNI"',
    'grpc_method="Add"',
  ];
  const before = await server.registry.metrics();
  const counters = ["started", "msg_received", "msg_sent"];
  for (const counter of counters) {
    assert.equal(sample(before, `grpc_server_${counter}_total`, add), 0);
  }
  for (const code of ["OK", "NotFound", "Internal", "Unauthenticated"]) {
    const labels = [...add, `grpc_code="${code}"`];
    assert.equal(sample(before, "grpc_server_handled_total", labels), 0);
  }
  await server.call("Add");
  await server.failure("Add", { containerId: "x" });
  const after = await server.registry.metrics();
  const counts = counters.map((counter) =>
    sample(after, `grpc_server_${counter}_total`, add)
  );
  assert.deepEqual(counts, [2, 2, 1]);
  for (const code of ["OK", "NotFound"]) {
    const labels = [...add, `grpc_code="${code}"`];
    assert.equal(sample(after, "grpc_server_handled_total", labels), 1);
  }
  assert.equal(sample(after, "grpc_server_handling_seconds_count", add), 2);
});

Deno.test("serve() makes a socket for its user alone", async () => {
  await using server = await TestServer.start(echo);
  const { isSocket, mode } = await Deno.lstat(server.path);
  assert.ok(isSocket && mode !== null);
  assert.equal(mode & 0o777, 0o600);
  const names: string[] = [];
  for await (const { name } of Deno.readDir(server.path.replace(/s$/, ""))) {
    names.push(name);
  }
  assert.deepEqual(names, ["s"], "nothing beside it");
});

Deno.test("serve() takes the place of a socket that was left", async () => {
  await using first = await TestServer.start(echo);
  await first.stop();
  assert.ok((await Deno.lstat(first.path)).isSocket);
  const abort = new AbortController();
  const none = () => Promise.resolve({});
  const { finished } = await serve({
    socketPath: first.path,
    methods: [
      unary(CNI.method.add, none),
      unary(CNI.method.del, none),
      unary(CNI.method.check, none),
      unary(CNI.method.gc, none),
      unary(CNI.method.status, none),
    ],
    signal: abort.signal,
  });
  assert.equal((await first.call("Status")).length, 0);
  abort.abort();
  await finished;
});

Deno.test("serve() never removes what is no socket", async () => {
  const directory = await Deno.makeTempDir();
  const paths = ["file", "link", "directory"].map((n) => `${directory}/${n}`);
  const [file = "", link = "", folder = ""] = paths;
  await Deno.writeTextFile(file, "precious");
  await Deno.symlink(file, link);
  await Deno.mkdir(folder);
  const { signal } = new AbortController();
  for (const socketPath of paths) {
    await assert.rejects(
      serve({ socketPath, methods: [], signal }),
      SocketPathError,
    );
  }
  assert.equal(await Deno.readTextFile(link), "precious");
  const long = `${directory}/${"x".repeat(120)}`;
  await assert.rejects(
    serve({ socketPath: long, methods: [], signal }),
    /too long/,
  );
  await Deno.remove(directory, { recursive: true });
});

Deno.test("serve() wants a handler for every method, once", async () => {
  const { signal } = new AbortController();
  const status = unary(CNI.method.status, () => Promise.resolve({}));
  await assert.rejects(
    serve({ socketPath: "/nowhere/s", methods: [status], signal }),
    /method Add has 0 handlers/,
  );
});

Deno.test("serve() lets running calls finish when it stops", async () => {
  const started = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  await using server = await TestServer.start(async (args) => {
    started.resolve();
    await release.promise;
    return args.stdinData;
  });
  const call = server.call("Add");
  await started.promise;
  const stopped = server.stop();
  setTimeout(() => release.resolve(), 50);
  assert.equal((await call).length, 4);
  await stopped;
});

Deno.test("serve() ends calls that do not finish in time", async () => {
  const started = Promise.withResolvers<void>();
  await using server = await TestServer.start(async (_args, { signal }) => {
    started.resolve();
    const { promise, reject } = Promise.withResolvers<never>();
    signal.addEventListener("abort", () => reject(signal.reason));
    await promise;
  }, 50);
  const failed = server.failure("Add");
  await started.promise;
  await server.stop();
  assert.ok(["Unavailable", "Canceled"].includes((await failed).codeName));
});

for (const version of ["v1", "v1alpha"]) {
  Deno.test(`serve() describes itself by grpc.reflection.${version}`, async () => {
    await using server = await TestServer.start(echo);
    const ask = reflectionClient(server.path, version);
    const services = await ask({ case: "listServices", value: "" });
    assert.equal(services.case, "listServicesResponse");
    assert.deepEqual(services.value.service.map(({ name }) => name), [
      "grpc.reflection.v1.ServerReflection",
      "grpc.reflection.v1alpha.ServerReflection",
      "pkg.cnirpc.CNI",
    ]);
    const found = await ask({
      case: "fileContainingSymbol",
      value: "pkg.cnirpc.CNI",
    });
    assert.equal(found.case, "fileDescriptorResponse");
    const registry = createFileRegistry(
      create(FileDescriptorSetSchema, {
        file: found.value.fileDescriptorProto.map((bytes) =>
          fromBinary(FileDescriptorProtoSchema, bytes)
        ).reverse(),
      }),
    );
    const described = registry.getService("pkg.cnirpc.CNI");
    assert.deepEqual(
      described?.methods.map(({ name }) => name),
      CNI.methods.map(({ name }) => name),
    );
    for (
      const symbol of ["pkg.cnirpc.CNIArgs.netns", "pkg.cnirpc.CNI.Add"]
    ) {
      const answer = await ask({ case: "fileContainingSymbol", value: symbol });
      assert.equal(answer.case, "fileDescriptorResponse", symbol);
    }
    const file = await ask({ case: "fileByFilename", value: "cni.proto" });
    assert.equal(file.case, "fileDescriptorResponse");
    const unknown = await ask({ case: "fileContainingSymbol", value: "no" });
    assert.equal(unknown.case, "errorResponse");
    assert.equal(unknown.value.errorCode, 5);
  });
}

/** Asks one question per stream, as grpcurl would on one stream. */
function reflectionClient(path: string, version: string) {
  return async (
    messageRequest:
      & NonNullable<
        Parameters<typeof create<typeof ServerReflectionRequestSchema>>[1]
      >["messageRequest"]
      & object,
  ) => {
    const client = new Client(`unix:${path}`, credentials.createInsecure());
    const pass = (bytes: Buffer) => bytes;
    const stream = client.makeBidiStreamRequest<Buffer, Buffer>(
      `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
      pass,
      pass,
    );
    const answer = Promise.withResolvers<Buffer>();
    stream.on("data", (bytes: Buffer) => answer.resolve(bytes));
    stream.on("error", (error: ServiceError) => answer.reject(error));
    const ended = new Promise((resolve) => stream.on("end", resolve));
    const request = create(ServerReflectionRequestSchema, { messageRequest });
    stream.write(Buffer.from(toBinary(ServerReflectionRequestSchema, request)));
    const bytes = await answer.promise;
    stream.end();
    await ended;
    client.close();
    return fromBinary(ServerReflectionResponseSchema, bytes).messageResponse;
  };
}

Deno.test("serve() understands grpc-js's client", async () => {
  await using server = await TestServer.start(echo);
  const client = new Client(
    `unix:${server.path}`,
    credentials.createInsecure(),
  );
  const pass = (bytes: Buffer) => bytes;
  const request = toBinary(
    CNIArgsSchema,
    create(CNIArgsSchema, { netns: "n" }),
  );
  const answer = await new Promise<Buffer | undefined>((resolve, reject) => {
    client.makeUnaryRequest(
      methodPath("Status"),
      pass,
      pass,
      Buffer.from(request),
      (error, value) => error ? reject(error) : resolve(value),
    );
  });
  assert.equal(answer?.length, 0);
  client.close();
});

Deno.test("W42: a foreign detail is only a detail", async () => {
  const details = [{ typeUrl: "example.org/a.B", value: new Uint8Array() }];
  await using server = await TestServer.start(() => {
    throw new GrpcError("odd", {
      code: 13,
      statusDetails: encodeRpcStatus({ code: 13, message: "odd", details }),
    });
  });
  const { statusDetails } = await server.failure("Add");
  assert.ok(statusDetails);
  assert.equal(decodeCniError(statusDetails), undefined);
});
