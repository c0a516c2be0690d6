import {
  createFileRegistry,
  type DescService,
  fromBinary,
  toBinary,
} from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";

/** The same service in the package's earlier version: only its names differ. */
export function asV1Alpha({ file, typeName }: DescService): DescService {
  const proto = fromBinary(
    FileDescriptorProtoSchema,
    toBinary(FileDescriptorProtoSchema, file.proto),
  );
  proto.name = earlier(proto.name);
  proto.package = earlier(proto.package);
  for (const { field } of proto.messageType) {
    for (const f of field) if (f.typeName) f.typeName = earlier(f.typeName);
  }
  for (const { method } of proto.service) {
    for (const m of method) {
      m.inputType = earlier(m.inputType);
      m.outputType = earlier(m.outputType);
    }
  }
  const service = createFileRegistry(proto, () => undefined)
    .getService(earlier(typeName));
  if (service === undefined) throw new TypeError(`No v1 in "${typeName}"`);
  return service;
}

function earlier(name: string): string {
  return name.replace(/\bv1\b/, "v1alpha");
}
