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
