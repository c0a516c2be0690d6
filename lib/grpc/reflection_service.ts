import type { handleBidiStreamingCall, MethodDefinition } from "@grpc/grpc-js";
import { type DescService, fromBinary, toBinary } from "@bufbuild/protobuf";
import { toBuffer } from "./bytes.ts";
import {
  ServerReflection as ReflectionV1,
  type ServerReflectionRequest,
  ServerReflectionRequestSchema,
  type ServerReflectionResponse,
  ServerReflectionResponseSchema,
} from "./gen/reflection/v1_pb.ts";
import { ServerReflection as ReflectionV1alpha } from "./gen/reflection/v1alpha_pb.ts";
import { Reflection } from "./reflection.ts";

/** Nobody asks for longer. */
const MAX_STREAM_MS = 60_000;

/** A version of server reflection, for grpc-js. */
export interface ReflectionService {
  readonly definition: {
    readonly ServerReflectionInfo: MethodDefinition<
      ServerReflectionRequest,
      ServerReflectionResponse
    >;
  };
  readonly answer: handleBidiStreamingCall<
    ServerReflectionRequest,
    ServerReflectionResponse
  >;
}

/** Server reflection for a service, in both versions, whose messages are the same on the wire. */
export function reflectionServices(service: DescService): ReflectionService[] {
  const versions = [ReflectionV1, ReflectionV1alpha];
  const reflection = new Reflection([service, ...versions]);
  return versions.map(({ typeName }) => ({
    definition: {
      ServerReflectionInfo: {
        path: `/${typeName}/ServerReflectionInfo`,
        requestStream: true,
        responseStream: true,
        requestSerialize: (request) =>
          toBuffer(toBinary(ServerReflectionRequestSchema, request)),
        requestDeserialize: (bytes) =>
          fromBinary(ServerReflectionRequestSchema, bytes),
        responseSerialize: (response) =>
          toBuffer(toBinary(ServerReflectionResponseSchema, response)),
        responseDeserialize: (bytes) =>
          fromBinary(ServerReflectionResponseSchema, bytes),
      },
    },
    answer: (call) => {
      const timer = setTimeout(() => call.end(), MAX_STREAM_MS);
      const end = () => {
        clearTimeout(timer);
        call.end();
      };
      call.on("data", (request) => call.write(reflection.answer(request)));
      call.on("end", end);
      call.on("cancelled", end);
      call.on("error", end);
    },
  }));
}
