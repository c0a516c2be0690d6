import assert from "node:assert/strict";
import { create, createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import {
  EmptySchema,
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
} from "@bufbuild/protobuf/wkt";
import {
  type ServerReflectionRequest,
  ServerReflectionRequestSchema,
} from "../gen/reflection/v1_pb.ts";
import { Reflection } from "./reflection.ts";

const EMPTY_FILE = "google/protobuf/empty.proto";

/** Reflection of a service whose file depends on another one. */
function reflection(): Reflection {
  const file = create(FileDescriptorProtoSchema, {
    name: "test.proto",
    package: "test",
    syntax: "proto3",
    dependency: [EMPTY_FILE],
    service: [{
      name: "Test",
      method: [{
        name: "Call",
        inputType: `.${EmptySchema.typeName}`,
        outputType: `.${EmptySchema.typeName}`,
      }],
    }],
  });
  const files = create(FileDescriptorSetSchema, {
    file: [EmptySchema.file.proto, file],
  });
  const service = createFileRegistry(files).getService("test.Test");
  assert.ok(service !== undefined);
  return new Reflection([service]);
}

type Asked = ServerReflectionRequest["messageRequest"];

/** The files of an answer, as they are sent. */
function filesOf(of: Reflection, messageRequest: Asked): Uint8Array[] {
  const request = create(ServerReflectionRequestSchema);
  const { messageResponse } = of.answer({ ...request, messageRequest });
  assert.equal(messageResponse.case, "fileDescriptorResponse");
  return messageResponse.value.fileDescriptorProto;
}

function namesOf(files: readonly Uint8Array[]): string[] {
  return files.map((file) => fromBinary(FileDescriptorProtoSchema, file).name);
}

Deno.test("Reflection sends each file by its own bytes, also when they were sent before", () => {
  const of = reflection();
  const asked: readonly (readonly [Asked, readonly string[]])[] = [
    [{ case: "fileContainingSymbol", value: EmptySchema.typeName }, [
      EMPTY_FILE,
    ]],
    [{ case: "fileContainingSymbol", value: "test.Test.Call" }, [
      "test.proto",
      EMPTY_FILE,
    ]],
    [{ case: "fileByFilename", value: EMPTY_FILE }, [EMPTY_FILE]],
  ];
  for (const [request, names] of [...asked, ...asked]) {
    assert.deepEqual(namesOf(filesOf(of, request)), names);
  }
});

Deno.test("Reflection encodes a file once, however it is asked for", () => {
  const of = reflection();
  const [, first] = filesOf(of, {
    case: "fileByFilename",
    value: "test.proto",
  });
  const [again] = filesOf(of, { case: "fileByFilename", value: EMPTY_FILE });
  assert.ok(first !== undefined);
  assert.equal(again, first);
});
