import assert from "node:assert/strict";
import { FAMILIES } from "../../lib/inet/mod.ts";
import {
  addressIn,
  CoordinatorLab,
  fetched,
  type LabPod,
  type NicSpec,
  overlayAddress,
  reaches,
  serving,
  stateOf,
} from "./coordinator_lab.ts";
import { netnsTest, type TempNetns } from "./testing.ts";

const NET1: NicSpec = { name: "net1", network: 7, number: 110 };
const NET2: NicSpec = { name: "net2", network: 8, number: 110 };

/** A pod with a first interface of the cluster's network and these beside it. */
async function podWith(
  lab: CoordinatorLab,
  nics: readonly NicSpec[],
): Promise<LabPod> {
  const pod = await lab.pod([]);
  await lab.addOverlay(pod.netns, 5);
  for (const nic of nics) await lab.addNic(pod.netns, nic);
  return pod;
}

/** What `ip route get` says: the link and the source. */
async function wayTo(
  pod: TempNetns,
  to: string,
  ...from: string[]
): Promise<string> {
  const text = await pod.ip("route", "get", to, ...from);
  const [, device] = / dev (\S+)/.exec(text) ?? [];
  return device ?? text;
}

netnsTest(
  "coordinator: interfaces beside an overlay's reach host and ClusterIPs through it, and answer by themselves",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const pod = await podWith(lab, []);
    for (const nic of [NET1, NET2]) {
      await lab.addNic(pod.netns, nic);
      await lab.ok("ADD", pod, {
        ifname: nic.name,
        config: { podRPFilter: 1 },
      });
      await lab.ok("CHECK", pod, {
        ifname: nic.name,
        config: { podRPFilter: 1 },
      });
    }
    await serving(lab, async () => {
      for (const family of FAMILIES) {
        for (const { network, name } of [NET1, NET2]) {
          const address = addressIn(network, family, 110);
          assert.ok(await reaches(lab.host, address), `host to ${address}`);
          // By the interface that the request came in by, to where none is.
          const far = addressIn(6, family, 1);
          assert.ok(
            await reaches(lab.switch, address, { source: far }),
            address,
          );
          assert.equal(await wayTo(pod.netns, far, "from", address), name);
          const source = { source: address };
          assert.equal(
            plain(await fetched(pod.netns, family, source)),
            address,
          );
        }
        const first = overlayAddress(family, 5);
        assert.equal(plain(await fetched(pod.netns, family)), first);
        assert.equal(await wayTo(pod.netns, addressIn(6, family, 77)), "eth0");
        assert.ok(await reaches(lab.host, first));
      }
    });
    assert.match(
      await pod.netns.ip("-4", "rule"),
      /1102:\s+from 10\.8\.0\.110 lookup 102/,
    );
  },
);

/** An IPv4 client of a server of both families. */
function plain(address: string): string {
  return address.replace("::ffff:", "");
}

netnsTest(
  "coordinator: the default route goes to the interface that is configured, and back with DEL",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const pod = await podWith(lab, []);
    const before = {
      pod: await stateOf(pod.netns),
      host: await stateOf(lab.host),
    };
    await lab.addNic(pod.netns, NET1);
    const call = { ifname: "net1", config: { podDefaultRouteNic: "net1" } };
    await lab.ok("ADD", pod, call);
    for (const family of FAMILIES) {
      const far = family === "ipv4" ? "198.51.100.1" : "2001:db8::1";
      assert.equal(await wayTo(pod.netns, far), "net1");
      const first = overlayAddress(family, 5);
      assert.equal(await wayTo(pod.netns, far, "from", first), "eth0");
      assert.ok(await reaches(lab.host, first));
    }
    await lab.ok("ADD", pod, call);
    await lab.ok("CHECK", pod, call);
    await lab.ok("DEL", pod, call);
    await pod.netns.ip("link", "delete", "net1");
    for (const place of ["pod", "host"] as const) {
      const netns = place === "pod" ? pod.netns : lab.host;
      const isRule = (line: string) => /from all lookup 500|^\{/.test(line);
      assert.deepEqual(
        (await stateOf(netns)).filter((line) => !isRule(line)),
        before[place].filter((line) => !isRule(line)),
      );
    }
  },
);

netnsTest(
  "coordinator: the pod's annotation names the interface with the default route, but the configuration comes first",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await podWith(lab, [NET1]);
    const annotated = {
      runtimeConfig: {
        "io.kubernetes.cri.pod-annotations": {
          "ipam.spidernet.io/default-route-nic": "net1",
        },
      },
    };
    await lab.ok("ADD", pod, {
      ifname: "net1",
      config: { ...annotated, podDefaultRouteNic: "eth0" },
    });
    assert.equal(await wayTo(pod.netns, "198.51.100.1"), "eth0");
    const other = await lab.pod([]);
    await lab.addOverlay(other.netns, 6);
    await lab.addNic(other.netns, { ...NET1, number: 111 });
    await lab.ok("ADD", other, { ifname: "net1", config: annotated });
    assert.equal(await wayTo(other.netns, "198.51.100.1"), "net1");
  },
);

netnsTest(
  "coordinator: without tuned routes there are no tables of interfaces",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await podWith(lab, [NET1]);
    const config = { tunePodRoutes: false };
    await lab.ok("ADD", pod, { ifname: "net1", config });
    await lab.ok("CHECK", pod, { ifname: "net1", config });
    assert.doesNotMatch(await pod.netns.ip("rule"), /proto 32/);
    assert.match(
      await pod.netns.ip("route"),
      /default via 10\.7\.0\.1[^]*default via 169/,
    );
    assert.ok(await reaches(lab.host, addressIn(7, "ipv4", 110)));
  },
);

const REFUSED: readonly (readonly [string, object, RegExp, number])[] = [
  [
    "net1",
    { podDefaultRouteNic: "net9" },
    /podDefaultRouteNIC: net9 don't exist in pod/,
    7,
  ],
  ["net1", { mode: "underlay" }, /was not created by previous interface/, 7],
  ["eth0", { mode: "overlay" }, /does not fit first interface "eth0"/, 7],
  ["net9", {}, /interface "net9" is not in the pod/, 7],
  [
    "net1",
    { podDefaultCniNic: "net2" },
    /interface "net2" has no end on the host/,
    11,
  ],
  ["net1", { serviceCIDR: [] }, /coordinator config not found/, 11],
  [
    "net1",
    { detectGateway: true, detectOptions: { retries: 0 } },
    /invalid detectOptions.retries 0/,
    7,
  ],
  ["net1", { vethMTU: 0 }, /vethMTU must be greater than 0/, 7],
  [
    "net1",
    {
      runtimeConfig: {
        "io.kubernetes.cri.pod-annotations": {
          "ipam.spidernet.io/default-route-nic": "x".repeat(100_000),
        },
      },
    },
    /^invalid ipam\.spidernet\.io\/default-route-nic "x{20}"$/,
    7,
  ],
];

netnsTest("coordinator: what is refused leaves nothing", async () => {
  await using lab = await CoordinatorLab.start(["ipv4"]);
  const pod = await podWith(lab, [NET1, NET2]);
  const before = [await stateOf(pod.netns), await stateOf(lab.host)];
  for (const [ifname, config, expected, code] of REFUSED) {
    const { stdout, exitCode } = await lab.call("ADD", pod, {
      ifname,
      config: { ...config },
    });
    assert.equal(exitCode, 1, stdout);
    const error = JSON.parse(stdout);
    assert.match(error.msg, expected);
    assert.equal(error.code, code, error.msg);
    assert.ok(error.details, error.msg);
    assert.deepEqual(
      [await stateOf(pod.netns), await stateOf(lab.host)],
      before,
    );
  }
  const { stdout } = await lab.call("ADD", pod, {
    ifname: "net1",
    prevResult: null,
  });
  assert.equal(JSON.parse(stdout).msg, "missing prevResult");
  await pod.netns.ip("address", "flush", "dev", "net2");
  const bare = await lab.call("ADD", pod, { ifname: "net2" });
  assert.equal(JSON.parse(bare.stdout).msg, 'no usable IP addresses on "net2"');
});

netnsTest(
  "coordinator: a pod's own link called veth0 is left alone",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await lab.pod([{ name: "eth0", network: 6, number: 100 }]);
    await pod.netns.ip(
      "link",
      "add",
      "veth0",
      "type",
      "veth",
      "peer",
      "name",
      "x",
    );
    const { stdout } = await lab.call("ADD", pod);
    assert.match(
      JSON.parse(stdout).msg,
      /pod has a link "veth0" that the coordinator did not create/,
    );
    await pod.netns.ip("link", "show", "veth0");
  },
);

netnsTest(
  "coordinator: queue length and MAC address are the pod's interface's own",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const pod = await podWith(lab, [NET1]);
    const config = {
      txQueueLen: 2000,
      podMACPrefix: "0A:1b",
      policyRoutes: [{ dst: "198.18.0.0/15", gw: "10.7.0.1" }],
    };
    const announced: string[] = [];
    lab.change = (outside) => ({
      ...outside,
      probes: {
        findConflict: () => Promise.reject(new Error("not asked for")),
        answers: () => Promise.reject(new Error("not asked for")),
        announce({ mac }, address) {
          announced.push(`${mac} ${address}`);
          return Promise.resolve();
        },
      },
    });
    await lab.ok("ADD", pod, { ifname: "net1", config });
    const [net1] = await pod.netns.ipJson("link", "show", "net1");
    assert.equal(net1?.["txqlen"], 2000);
    assert.equal(net1?.["address"], "0a:1b:0a:07:00:6e");
    assert.deepEqual(announced, ["0a:1b:0a:07:00:6e 10.7.0.110"]);
    const routes = await pod.netns.ip("route", "show", "table", "101");
    assert.match(routes, /198\.18\.0\.0\/15 via 10\.7\.0\.1 dev net1/);
  },
);
