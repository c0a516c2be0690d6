import {
  create,
  type DescMessage,
  type DescMethodUnary,
  type DescService,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { GrpcError, StatusCode } from "../status.ts";

/** What a handler learns about the call it answers. */
export interface CallContext {
  /** Aborted when the caller gives up or its deadline passes. */
  readonly signal: AbortSignal;
  /** Absent when the caller would wait for ever. */
  readonly deadline: Date | undefined;
  /** The caller's address; `@` on a UNIX socket. */
  readonly peer: string;
  /** When the request had arrived. */
  readonly startTime: Date;
  /** Full name of the service, e.g. `grpc.health.v1.Health`. */
  readonly service: string;
  /** Name of the method, e.g. `Check`. */
  readonly method: string;
}

/** Fields about a request, for its log records. */
export type RequestFields = Readonly<Record<string, string>>;

/** A method of a service with the function that answers it. */
export interface BoundMethod {
  /** The service it belongs to. */
  readonly service: DescService;
  /** Its name in there. */
  readonly name: string;
  /**
   * Decodes a request.
   *
   * @throws {GrpcError} with code INVALID_ARGUMENT
   */
  prepare(request: Uint8Array): PreparedCall;
}

/** A decoded request. */
export interface PreparedCall {
  /** What log records say about it. */
  readonly fields: RequestFields;
  /** Answers it; the promise is rejected with what the handler throws. */
  run(context: CallContext): Promise<Uint8Array>;
}

/** Ties a unary method to its handler. */
export function unary<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  handler: (
    request: MessageShape<I>,
    context: CallContext,
  ) => Promise<MessageInitShape<O>>,
  options: {
    readonly fields?: (request: MessageShape<I>) => RequestFields;
  } = {},
): BoundMethod {
  return {
    service: method.parent,
    name: method.name,
    prepare(bytes) {
      const request = decode(method.input, bytes);
      return {
        fields: options.fields?.(request) ?? {},
        async run(context) {
          const response = await handler(request, context);
          return toBinary(method.output, create(method.output, response));
        },
      };
    },
  };
}

function decode<T extends DescMessage>(
  schema: T,
  bytes: Uint8Array,
): MessageShape<T> {
  try {
    return fromBinary(schema, bytes);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new GrpcError(`Cannot decode ${schema.typeName}: ${reason}`, {
      code: StatusCode.INVALID_ARGUMENT,
      cause,
    });
  }
}

/**
 * Groups methods by service.
 *
 * @throws {TypeError} when a method of a service is missing or there twice
 */
export function groupByService(
  methods: readonly BoundMethod[],
): Map<DescService, BoundMethod[]> {
  const groups = Map.groupBy(methods, (method) => method.service);
  for (const [service, bound] of groups) {
    for (const { name } of service.methods) {
      const count = bound.filter((method) => method.name === name).length;
      if (count !== 1) {
        throw new TypeError(
          `Cannot serve ${service.typeName}: method ${name} has ${count} handlers`,
        );
      }
    }
  }
  return groups;
}
