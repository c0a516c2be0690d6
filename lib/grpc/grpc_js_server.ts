import {
  type ConnectionInjector,
  type handleUnaryCall,
  Metadata,
  type MethodDefinition,
  Server,
  ServerCredentials,
  type ServiceError,
} from "@grpc/grpc-js";
import type { DescService } from "@bufbuild/protobuf";
import { AS_BYTES, toBuffer } from "./bytes.ts";
import { Connections } from "./connections.ts";
import { reflectionServices } from "./reflection_service.ts";
import type { GrpcCall, GrpcService } from "./service.ts";
import { GrpcError, StatusCode } from "./status.ts";

/** The largest request is a network configuration with prevResult. */
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
const MAX_CALLS_OF_CONNECTION = 128;

/** Speaks gRPC on connections, by grpc-js. */
export class GrpcJsServer {
  readonly #connections = new Connections({
    requestBytes: 4 * MAX_MESSAGE_BYTES,
  });
  readonly #injector: ConnectionInjector;

  constructor(service: GrpcService) {
    this.#injector = serverOf(service)
      .createConnectionInjector(ServerCredentials.createInsecure());
  }

  /** Takes a connection. */
  take(socket: Deno.UnixConn): void {
    const connection = this.#connections.add(socket);
    if (connection !== undefined) this.#injector.injectConnection(connection);
  }

  /** Closes a connection that can be done without, if there is one. */
  relieve(): void {
    this.#connections.relieve();
  }

  /** Ends: connections with their last call, all of them after a time. */
  async close(graceMs: number): Promise<void> {
    this.#injector.destroy();
    await this.#connections.close(graceMs);
  }
}

function serverOf({ definition, handle }: GrpcService): Server {
  const server = new Server({
    "grpc.max_concurrent_streams": MAX_CALLS_OF_CONNECTION,
    "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
    "grpc.enable_channelz": 0,
  });
  server.addService(
    definitionOf(definition),
    Object.fromEntries(
      definition.methods.map(({ name }) => [name, unary(name, handle)]),
    ),
  );
  for (
    const { definition: reflection, answer } of reflectionServices(definition)
  ) {
    server.addService(reflection, { ServerReflectionInfo: answer });
  }
  return server;
}

function unary(
  method: string,
  handle: (call: GrpcCall) => Promise<Uint8Array>,
): handleUnaryCall<Uint8Array, Uint8Array> {
  return (call, done) => {
    const abort = new AbortController();
    call.on("cancelled", () => {
      const code = StatusCode.CANCELLED;
      abort.abort(new GrpcError("Connection closed by the caller", { code }));
    });
    const { request } = call;
    const { signal } = abort;
    const remainingMs = remainingOf(call.getDeadline());
    handle({ method, request, signal, remainingMs })
      .then((response) => done(null, response), (error) => {
        done(toServiceError(error));
      });
  };
}

function remainingOf(deadline: Date | number): number | undefined {
  const atMs = Number(deadline);
  return Number.isFinite(atMs) ? Math.max(0, atMs - Date.now()) : undefined;
}

function definitionOf(
  service: DescService,
): Record<string, MethodDefinition<Uint8Array, Uint8Array>> {
  return Object.fromEntries(service.methods.map(({ name }) => [name, {
    path: `/${service.typeName}/${name}`,
    requestStream: false,
    responseStream: false,
    ...AS_BYTES,
  }]));
}

/** Errors that say nothing about gRPC are UNKNOWN, as in grpc-go. */
function toServiceError(thrown: unknown): Partial<ServiceError> {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const { code, statusDetails } = thrown instanceof GrpcError
    ? thrown
    : { code: StatusCode.UNKNOWN, statusDetails: undefined };
  const metadata = new Metadata();
  if (statusDetails !== undefined) {
    metadata.set("grpc-status-details-bin", toBuffer(statusDetails));
  }
  return { code, details: message, metadata };
}
