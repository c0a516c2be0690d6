import { Buffer } from "node:buffer";
import {
  type handleBidiStreamingCall,
  type handleUnaryCall,
  Server,
  ServerCredentials,
  type ServiceDefinition,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { type DescService, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { Registry } from "../../telemetry/mod.ts";
import { answerCall } from "./call.ts";
import {
  ServerReflection,
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from "./gen/reflection/v1_pb.ts";
import { ServerReflection as ServerReflectionV1Alpha } from "./gen/reflection/v1alpha_pb.ts";
import { type BoundMethod, groupByService } from "./method.ts";
import { CallMetrics } from "./metrics.ts";
import { Reflection } from "./reflection.ts";
import { placeSocket } from "./socket.ts";

/** Options of {@linkcode serve}. */
export interface ServeOptions {
  /** Absolute path of the UNIX socket to listen on. */
  readonly socketPath: string;
  /** Every method of each service, with its handler; see `unary()`. */
  readonly methods: readonly BoundMethod[];
  /** Ends the server: no new calls, running ones may finish. */
  readonly signal: AbortSignal;
  /** Permissions of the socket. Default 0600. */
  readonly mode?: number;
  /** How long running calls may take once the signal came. Default 10 s. */
  readonly graceMs?: number;
  /** Where calls are counted, under the names of go-grpc-prometheus. */
  readonly registry?: Registry;
}

/** A server at work. */
export interface RunningServer {
  /** Where it listens. */
  readonly socketPath: string;
  /** Resolves when the last call has ended after the signal. */
  readonly finished: Promise<void>;
}

/**
 * Serves gRPC on a UNIX socket, with server reflection. A socket that an
 * earlier process left at the path is replaced; the server's own stays when it
 * ends, since it cannot tell it from a successor's: it refuses connections.
 *
 * @throws {SocketPathError} when something else is at the path
 */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const { socketPath, methods, signal, registry } = options;
  signal.throwIfAborted();
  const server = new Server({
    // The largest request is a network configuration with prevResult.
    "grpc.max_receive_message_length": 16 * 1024 * 1024,
  });
  const metrics = registry && new CallMetrics(registry, methods);
  const groups = groupByService(methods);
  for (const bound of groups.values()) addUnaryMethods(server, bound, metrics);
  addReflection(server, [...groups.keys()]);
  await placeSocket(socketPath, {
    mode: options.mode ?? 0o600,
    bind: (path) => bind(server, path),
  });
  return {
    socketPath,
    finished: stopOnAbort(server, signal, options.graceMs ?? 10_000),
  };
}

function bind(server: Server, path: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.bindAsync(
    `unix:${path}`,
    ServerCredentials.createInsecure(),
    (error) => error ? reject(error) : resolve(),
  );
  return promise;
}

async function stopOnAbort(
  server: Server,
  signal: AbortSignal,
  graceMs: number,
): Promise<void> {
  const { promise: aborted, resolve } = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => resolve(), { once: true });
  if (signal.aborted) resolve();
  await aborted;
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
  server.tryShutdown(() => stop());
  const timer = setTimeout(() => {
    server.forceShutdown();
    stop();
  }, graceMs);
  await stopped;
  clearTimeout(timer);
}

const PASS_THROUGH = {
  requestSerialize: (bytes: Buffer) => bytes,
  requestDeserialize: (bytes: Buffer) => bytes,
  responseSerialize: (bytes: Buffer) => bytes,
  responseDeserialize: (bytes: Buffer) => bytes,
};

/** Messages are decoded in `answerCall()`, so that no call goes uncounted. */
function addUnaryMethods(
  server: Server,
  methods: readonly BoundMethod[],
  metrics: CallMetrics | undefined,
): void {
  const definition: Record<string, ServiceDefinition[string]> = {};
  const handlers: UntypedServiceImplementation = {};
  for (const method of methods) {
    definition[method.name] = {
      path: `/${method.service.typeName}/${method.name}`,
      requestStream: false,
      responseStream: false,
      ...PASS_THROUGH,
    };
    const handler: handleUnaryCall<Buffer, Buffer> = (call, callback) => {
      answerCall(method, call, metrics).then((outcome) => {
        if ("response" in outcome) callback(null, outcome.response);
        else callback(outcome.failure);
      });
    };
    handlers[method.name] = handler;
  }
  server.addService(definition, handlers);
}

function addReflection(server: Server, services: readonly DescService[]): void {
  const versions = [ServerReflection, ServerReflectionV1Alpha];
  const reflection = new Reflection([...services, ...versions]);
  const handler: handleBidiStreamingCall<Buffer, Buffer> = (call) => {
    call.on("data", (bytes: Buffer) => {
      try {
        const request = fromBinary(ServerReflectionRequestSchema, bytes);
        const response = reflection.answer(request);
        const answer = toBinary(ServerReflectionResponseSchema, response);
        call.write(Buffer.from(answer));
      } catch (error) {
        call.destroy(error instanceof Error ? error : new Error(String(error)));
      }
    });
    call.on("end", () => call.end());
    // A stream that breaks has nobody left to be told.
    call.on("error", () => {});
  };
  for (const { typeName } of versions) {
    server.addService(
      {
        ServerReflectionInfo: {
          path: `/${typeName}/ServerReflectionInfo`,
          requestStream: true,
          responseStream: true,
          ...PASS_THROUGH,
        },
      },
      { ServerReflectionInfo: handler },
    );
  }
}
