import { type DescService, fromBinary, toBinary } from "@bufbuild/protobuf";
import { messageOf } from "../../errors/mod.ts";
import { GrpcError, StatusCode } from "../base/status.ts";
import {
  ServerReflection,
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from "../gen/reflection/v1_pb.ts";
import type { GrpcService } from "../base/service.ts";
import type { BoundMethod } from "./call.ts";
import { Reflection } from "./reflection.ts";
import { asV1Alpha } from "./v1alpha.ts";

/** Handler of the calls of a path. */
export type Route =
  | { readonly kind: "unary"; readonly method: BoundMethod }
  /** A stream: each message is answered at once. */
  | {
    readonly kind: "stream";
    readonly answer: (message: Uint8Array) => Uint8Array;
  };

/** Names are shorter. The answer repeats the request, up to three times. */
const MAX_REFLECTION_REQUEST = 4 * 1024;

/** Routes by path: `/package.Service/Method`. */
export type Routes = ReadonlyMap<string, Route>;

/** The paths of all methods of a service, and of server reflection. */
export function makeRoutes({ definition, handle }: GrpcService): Routes {
  const routes = new Map<string, Route>();
  for (const { name } of definition.methods) {
    const method: BoundMethod = { name, answer: handle };
    routes.set(`/${definition.typeName}/${name}`, { kind: "unary", method });
  }
  const versions = [ServerReflection, asV1Alpha(ServerReflection)];
  const route = reflectionRoute([definition, ...versions]);
  for (const { typeName } of versions) {
    routes.set(`/${typeName}/ServerReflectionInfo`, route);
  }
  return routes;
}

/** The error for a path that has no route. */
export function unknownMethod(path: string): GrpcError {
  return new GrpcError(`Unknown method "${path}"`, {
    code: StatusCode.UNIMPLEMENTED,
  });
}

function reflectionRoute(services: readonly DescService[]): Route {
  let reflection: Reflection | undefined;
  const answer = (message: Uint8Array) => {
    if (message.length > MAX_REFLECTION_REQUEST) {
      throw new GrpcError("Cannot answer: the request is too large", {
        code: StatusCode.RESOURCE_EXHAUSTED,
      });
    }
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
    throw new GrpcError(`Cannot decode request: ${messageOf(cause)}`, {
      code: StatusCode.INVALID_ARGUMENT,
      cause,
    });
  }
}
