// Answers every ADD at once: what remains is the plugin's own time.
import { parseResult } from "../../lib/cni/mod.ts";
import { CniCalls } from "../../roles/coild/service/cni_calls.ts";
import { openDoors } from "../../roles/coild/server/doors.ts";

const RESULT = parseResult({
  cniVersion: "1.1.0",
  interfaces: [
    { name: "eth0", mac: "02:00:00:00:00:01", sandbox: "/run/netns/x" },
    { name: "veth00000000", mac: "02:00:00:00:00:02" },
  ],
  ips: [{ address: "10.1.2.3/32", interface: 0 }],
});

const [socketPath = ""] = Deno.args;
const { signal } = new AbortController();
const nothing = () => Promise.resolve();
const calls = new CniCalls({
  methods: {
    add: () => Promise.resolve(RESULT),
    del: nothing,
    check: nothing,
    gc: nothing,
    status: nothing,
  },
});
await openDoors({ calls, socketPath, signal });
