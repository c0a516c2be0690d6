import assert from "node:assert/strict";
import { ErrorCode, Http2Error } from "../base/http2_frames.ts";
import { ReceiveWindow } from "./receive_window.ts";

Deno.test("ReceiveWindow grants again what was used, once that is half of it", () => {
  const window = new ReceiveWindow(100);
  assert.deepEqual([49, 1, 10, 60].map((n) => window.receive(n)), [
    0,
    50,
    0,
    70,
  ]);
});

Deno.test("ReceiveWindow refuses more than it has granted", () => {
  const window = new ReceiveWindow(100);
  assert.throws(() => window.receive(101), (error) => {
    assert.ok(error instanceof Http2Error);
    return error.code === ErrorCode.FLOW_CONTROL_ERROR;
  });
});
