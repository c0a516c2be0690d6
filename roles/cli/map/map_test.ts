import assert from "node:assert/strict";
import { block, pool } from "../../../lib/ipam/audit/testing.ts";
import { MemoryApi, serveTransport } from "../../../lib/kube/testing.ts";
import { coil } from "../testing.ts";

const BLOCK = block(["default", 0, "n1"], { ipv4: "10.2.0.0/27" });

function refusal(status: number) {
  const chunks = ReadableStream.from<Uint8Array<ArrayBuffer>>([]);
  return Promise.resolve({ status, headers: new Headers(), chunks });
}

/** Of an API server that is overloaded or has just started, and of proxies before it. */
for (const status of [429, 507, 520]) {
  Deno.test(`coil ipam map --watch goes on after a list was answered with ${status}`, () =>
    goesOnAfter(status));
}

async function goesOnAfter(status: number): Promise<void> {
  const api = new MemoryApi();
  api.put("addresspools", pool("default", [{ ipv4: "10.2.0.0/24" }]));
  let lists = 0;
  let isRefused = true;
  await using server = await serveTransport({
    stream: (request) => {
      const isList = request.path.includes("/addresspools?");
      // The first asks whether the pool exists.
      if (isList && ++lists > 1 && isRefused) return refusal(status);
      return api.stream(request);
    },
  });
  const stop = new AbortController();
  const args = ["ipam", "map", "default", "--watch"];
  const { code, out, err } = await coil(
    [...args, `--kubeconfig=${server.kubeconfig}`],
    {
      signal: stop.signal,
      onWrite: ({ out }) => {
        if (out !== "") return stop.abort();
        isRefused = false;
        api.put("addressblocks", BLOCK);
      },
    },
  );
  assert.equal(code, 0, err);
  assert.match(out, /^AddressPool default: /);
  assert.match(err, /^Cannot .*: the picture is old\n$/);
}
