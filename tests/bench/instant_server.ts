// Answers every ADD at once: what remains is the plugin's own time.
import { CNI } from "../../lib/cnirpc/mod.ts";
import { serve, unary } from "../../lib/grpc/server/mod.ts";
import { servePlugins } from "../../roles/coild/server/plugin_server.ts";

const RESULT = new TextEncoder().encode(JSON.stringify({
  cniVersion: "1.1.0",
  interfaces: [
    { name: "eth0", mac: "02:00:00:00:00:01", sandbox: "/run/netns/x" },
    { name: "veth00000000", mac: "02:00:00:00:00:02" },
  ],
  ips: [{ address: "10.1.2.3/32", interface: 0 }],
}));

const [socketPath = ""] = Deno.args;
const { signal } = new AbortController();
const server = await serve({
  socketPath,
  signal,
  methods: [
    unary(CNI.method.add, () => Promise.resolve({ result: RESULT })),
    ...[CNI.method.del, CNI.method.check, CNI.method.gc, CNI.method.status]
      .map((method) => unary(method, () => Promise.resolve({}))),
  ],
});
await servePlugins({ server, signal });
