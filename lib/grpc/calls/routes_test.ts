import assert from "node:assert/strict";
import { GrpcError, StatusCode } from "../base/status.ts";
import { ServerReflection } from "../gen/reflection/v1_pb.ts";
import { makeRoutes } from "./routes.ts";

Deno.test("server reflection refuses what it would repeat at length", () => {
  const routes = makeRoutes({
    definition: ServerReflection,
    handle: () => Promise.resolve(new Uint8Array()),
  });
  const path = `/${ServerReflection.typeName}/ServerReflectionInfo`;
  const route = routes.get(path);
  assert.ok(route?.kind === "stream");
  assert.throws(
    () => route.answer(new Uint8Array(5_000)),
    (error) =>
      error instanceof GrpcError &&
      error.code === StatusCode.RESOURCE_EXHAUSTED,
  );
  assert.ok(route.answer(new Uint8Array()).length > 0);
});

Deno.test("server reflection reads the descriptors when it is first asked, and only then", () => {
  let reads = 0;
  const definition: typeof ServerReflection = Object.create(ServerReflection, {
    file: {
      get() {
        reads++;
        return ServerReflection.file;
      },
    },
  });
  const handle = () => Promise.resolve(new Uint8Array());
  const routes = makeRoutes({ definition, handle });
  const path = `/${ServerReflection.typeName}/ServerReflectionInfo`;
  const route = routes.get(path);
  assert.ok(route?.kind === "stream");
  assert.equal(reads, 0);
  for (let i = 0; i < 2; i++) route.answer(new Uint8Array());
  assert.equal(reads, 1);
});
