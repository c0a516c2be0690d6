import { type DescService, fromBinary, toBinary } from "@bufbuild/protobuf";
import { GrpcError, StatusCode } from "../status.ts";
import {
  ServerReflection,
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from "./gen/reflection/v1_pb.ts";
import { ServerReflection as ServerReflectionV1Alpha } from "./gen/reflection/v1alpha_pb.ts";
import { type BoundMethod, groupByService } from "./method.ts";
import { Reflection } from "./reflection.ts";

/** What answers the calls of a path. */
export type Route =
  | { readonly kind: "unary"; readonly method: BoundMethod }
  /** A stream: each message is answered at once. */
  | {
    readonly kind: "stream";
    readonly answer: (message: Uint8Array) => Uint8Array;
  };

/** Routes by path: `/package.Service/Method`. */
export type Routes = ReadonlyMap<string, Route>;

/**
 * The paths of all methods and of server reflection.
 *
 * @throws {TypeError} when a method of a service is missing or there twice
 */
export function makeRoutes(methods: readonly BoundMethod[]): Routes {
  const services = [...groupByService(methods).keys()];
  const routes = new Map<string, Route>();
  for (const method of methods) {
    const path = `/${method.service.typeName}/${method.name}`;
    routes.set(path, { kind: "unary", method });
  }
  const versions = [ServerReflection, ServerReflectionV1Alpha];
  const route = reflectionRoute([...services, ...versions]);
  for (const { typeName } of versions) {
    routes.set(`/${typeName}/ServerReflectionInfo`, route);
  }
  return routes;
}

/** What a caller is told of a path that has no route. */
export function unknownMethod(path: string): GrpcError {
  return new GrpcError(`Unknown method "${path}"`, {
    code: StatusCode.UNIMPLEMENTED,
  });
}

function reflectionRoute(services: readonly DescService[]): Route {
  let reflection: Reflection | undefined;
  const answer = (message: Uint8Array) => {
    reflection ??= new Reflection(services);
    const request = decodeRequest(message);
    const response = reflection.answer(request);
    return toBinary(ServerReflectionResponseSchema, response);
  };
  return { kind: "stream", answer };
}

function decodeRequest(message: Uint8Array) {
  try {
    return fromBinary(ServerReflectionRequestSchema, message);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new GrpcError(`Cannot decode request: ${reason}`, {
      code: StatusCode.INVALID_ARGUMENT,
      cause,
    });
  }
}
