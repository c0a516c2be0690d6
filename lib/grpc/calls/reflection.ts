import {
  create,
  type DescFile,
  type DescMessage,
  type DescService,
  toBinary,
} from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { StatusCode } from "../base/status.ts";
import {
  type ServerReflectionRequest,
  type ServerReflectionResponse,
  ServerReflectionResponseSchema,
} from "../gen/reflection/v1_pb.ts";

type Answer = ServerReflectionResponse["messageResponse"];

/**
 * Answers what a client asks about services, such as `grpcurl` does. The
 * messages of v1 and v1alpha are the same on the wire.
 *
 * https://github.com/grpc/grpc/blob/master/doc/server-reflection.md
 */
export class Reflection {
  readonly #services: readonly string[];
  readonly #filesByName = new Map<string, DescFile>();
  readonly #filesBySymbol = new Map<string, DescFile>();
  /** Files as they are sent: to encode one takes five times as long as the rest of an answer. */
  readonly #encoded = new Map<DescFile, Uint8Array>();

  constructor(services: readonly DescService[]) {
    this.#services = services.map((service) => service.typeName).sort();
    for (const service of services) this.#addFile(service.file);
  }

  #addFile(file: DescFile): void {
    // mutate: either way it is there once; this saves time.
    if (this.#filesByName.has(file.proto.name)) return;
    this.#filesByName.set(file.proto.name, file);
    for (const symbol of symbolsOf(file)) this.#filesBySymbol.set(symbol, file);
    for (const dependency of file.dependencies) this.#addFile(dependency);
  }

  /** The answer to one request of a stream. */
  answer(request: ServerReflectionRequest): ServerReflectionResponse {
    return create(ServerReflectionResponseSchema, {
      validHost: request.host,
      originalRequest: request,
      messageResponse: this.#answer(request.messageRequest),
    });
  }

  #answer(asked: ServerReflectionRequest["messageRequest"]): Answer {
    switch (asked.case) {
      case "listServices":
        return this.#listServices();
      case "fileByFilename":
        return this.#file(this.#filesByName.get(asked.value), asked.value);
      case "fileContainingSymbol":
        return this.#file(this.#filesBySymbol.get(asked.value), asked.value);
      case "fileContainingExtension":
        return notFound(asked.value.containingType);
      case "allExtensionNumbersOfType":
        return this.#extensionNumbers(asked.value);
      default:
        return error(StatusCode.INVALID_ARGUMENT, "invalid MessageRequest");
    }
  }

  /** A file with all it depends on, so that a client needs to ask only once. */
  #file(file: DescFile | undefined, name: string): Answer {
    if (file === undefined) return notFound(name);
    const files = new Set<DescFile>();
    const visit = (next: DescFile) => {
      // mutate: as above.
      if (files.has(next)) return;
      files.add(next);
      next.dependencies.forEach(visit);
    };
    visit(file);
    return {
      case: "fileDescriptorResponse",
      value: {
        $typeName: "grpc.reflection.v1.FileDescriptorResponse",
        fileDescriptorProto: [...files].map((each) => this.#encode(each)),
      },
    };
  }

  #encode(file: DescFile): Uint8Array {
    return this.#encoded.getOrInsertComputed(
      file,
      ({ proto }) => toBinary(FileDescriptorProtoSchema, proto),
    );
  }

  #listServices(): Answer {
    const service = this.#services.map((name) => ({
      $typeName: "grpc.reflection.v1.ServiceResponse" as const,
      name,
    }));
    return {
      case: "listServicesResponse",
      value: { $typeName: "grpc.reflection.v1.ListServiceResponse", service },
    };
  }

  /** proto3 services have no extensions: known types have none. */
  #extensionNumbers(baseTypeName: string): Answer {
    if (!this.#filesBySymbol.has(baseTypeName)) return notFound(baseTypeName);
    return {
      case: "allExtensionNumbersResponse",
      value: {
        $typeName: "grpc.reflection.v1.ExtensionNumberResponse",
        baseTypeName,
        extensionNumber: [],
      },
    };
  }
}

function error(errorCode: number, errorMessage: string): Answer {
  return {
    case: "errorResponse",
    value: {
      $typeName: "grpc.reflection.v1.ErrorResponse",
      errorCode,
      errorMessage,
    },
  };
}

function notFound(name: string): Answer {
  return error(StatusCode.NOT_FOUND, `"${name}" is not known`);
}

/** Full names of all that a file defines. */
function* symbolsOf(file: DescFile): Generator<string> {
  for (const service of file.services) {
    yield service.typeName;
    for (const { name } of service.methods) yield `${service.typeName}.${name}`;
  }
  for (const message of file.messages) yield* symbolsOfMessage(message);
  for (const { typeName } of file.enums) yield typeName;
}

function* symbolsOfMessage(message: DescMessage): Generator<string> {
  yield message.typeName;
  for (const { name } of message.fields) yield `${message.typeName}.${name}`;
  for (const { typeName } of message.nestedEnums) yield typeName;
  for (const nested of message.nestedMessages) yield* symbolsOfMessage(nested);
}
