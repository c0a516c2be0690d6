import assert from "node:assert/strict";
import { hostPort } from "./host_port.ts";

Deno.test("hostPort() has brackets around an IPv6 address alone", () => {
  const hosts = ["10.0.0.1", "node1.acme.example", "fd00::1"];
  assert.deepEqual(hosts.map((host) => hostPort(host, 443)), [
    "10.0.0.1:443",
    "node1.acme.example:443",
    "[fd00::1]:443",
  ]);
});
