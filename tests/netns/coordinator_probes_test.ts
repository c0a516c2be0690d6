import assert from "node:assert/strict";
import { untilPasses } from "../../lib/async/testing.ts";
import { FAMILIES } from "../../lib/inet/mod.ts";
import {
  addressIn,
  ANSWERED,
  CoordinatorLab,
  interfaceAddressIn,
  type NicSpec,
  reaches,
  stateOf,
  untilUsed,
} from "./coordinator_lab.ts";
import { FrameCapture } from "./frame_capture.ts";
import { netnsTest } from "./testing.ts";

const MAIN = new URL("../../main.ts", import.meta.url).pathname;
const ETH0: NicSpec = { name: "eth0", network: 6, number: 100 };

for (const family of FAMILIES) {
  netnsTest(
    `coordinator: an address that another machine has is refused with its owner, and taken off the interface, ${family}`,
    async () => {
      await using lab = await CoordinatorLab.start([family]);
      const config = { detectIPConflict: true };
      const pod = await lab.pod([ETH0]);
      await lab.ok("ADD", pod, { config });
      // Its own answers are none of another machine.
      await lab.ok("ADD", pod, { config });
      const second = await lab.pod([ETH0]);
      const before = await stateOf(lab.host);
      const address = addressIn(6, family, 100);
      const [row] = await pod.netns.ipJson("link", "show", "eth0");
      assert.equal(
        await lab.refusal("ADD", second, {
          config: { ...config, detectOptions: ANSWERED },
        }),
        `11 ip conflict: pod's interface eth0 with an conflicting ip ${address}, ${address} is located at ${
          row?.["address"]
        }`,
      );
      const left = await second.netns.ip("address", "show", "eth0");
      assert.ok(!left.includes(address), left);
      assert.deepEqual(await stateOf(lab.host), before);
      assert.ok(await reaches(lab.host, address));
    },
  );

  netnsTest(
    `coordinator: a dead gateway is found, and one that lives, ${family}`,
    async () => {
      await using lab = await CoordinatorLab.start([family]);
      const config = { detectGateway: true, detectIPConflict: true };
      const pod = await lab.pod([ETH0]);
      const before = [await stateOf(pod.netns), await stateOf(lab.host)];
      // An address that is still checked does not answer.
      const nodad = family === "ipv4" ? [] : ["nodad"];
      const change = (network: 6 | 7, verb: string, ...flags: string[]) =>
        lab.switch.ip(
          ...["address", verb, interfaceAddressIn(network, family, 1)],
          ...["dev", `net${network}`],
          ...flags,
        );
      await change(6, "delete");
      const detectOptions = { retries: 2, interval: "20ms", timeout: "60ms" };
      assert.equal(
        await lab.refusal("ADD", pod, {
          config: { ...config, detectOptions },
        }),
        `11 gateway ${addressIn(6, family, 1)} is unreachable`,
      );
      assert.deepEqual(
        [await stateOf(pod.netns), await stateOf(lab.host)],
        before,
      );
      await change(6, "add", ...nodad);
      const lives = { ...config, detectOptions: { timeout: "2s" } };
      await lab.ok("ADD", pod, { config: lives });
      // The first ADD moves its default route out of the main table.
      const ifname = "net1";
      await lab.addNic(pod.netns, { ...ETH0, name: ifname, network: 7 });
      await lab.ok("ADD", pod, { ifname, config: lives });
      await change(7, "delete");
      assert.equal(
        await lab.refusal("ADD", pod, {
          ifname,
          config: { ...config, detectOptions },
        }),
        `11 gateway ${addressIn(7, family, 1)} is unreachable`,
      );
    },
  );
}

netnsTest(
  "coordinator: an address that the host has is refused, also without probes, which do not find it",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const [row] = await lab.host.ipJson("link", "show", "net6");
    const before = await stateOf(lab.host);
    for (const detectIPConflict of [false, true]) {
      const pod = await lab.pod([{ ...ETH0, number: 10 }]);
      const config = { detectIPConflict };
      assert.equal(
        await lab.refusal("ADD", pod, { config }),
        `11 ip conflict: pod's interface eth0 with an conflicting ip 10.6.0.10, 10.6.0.10 is located at ${
          row?.["address"]
        }`,
      );
      const left = await pod.netns.ip("address", "show", "scope", "global");
      assert.doesNotMatch(left, /inet/);
      assert.deepEqual(await stateOf(lab.host), before);
    }
    // Addresses of the host that are no way to it, such as those of a bridge of containers.
    await lab.host.ip("link", "add", "docker0", "type", "bridge");
    await lab.host.ip("address", "add", "10.6.0.100/32", "dev", "docker0");
    await lab.joined([ETH0]);
  },
);

netnsTest(
  "coordinator: of an IPv6 address that the kernel has found in use the owner is found, and without probes it is missing",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const owner = await lab.joined([ETH0]);
    const [row] = await owner.netns.ipJson("link", "show", "eth0");
    const address = addressIn(6, "ipv6", 100);
    const podWith = async (families: NicSpec["families"] & object) => {
      const pod = await lab.pod([{ ...ETH0, number: 101, families }]);
      const { netns } = pod;
      await netns.ip("address", "add", `${address}/64`, "dev", "eth0");
      await untilPasses(async () => {
        const found = await netns.ip("address", "show", "dadfailed");
        assert.ok(found.includes(address), found);
      });
      return pod;
    };
    const conflict =
      `11 ip conflict: pod's interface eth0 with an conflicting ip ${address}, ${address} is located at ${
        row?.["address"]
      }`;
    const config = { detectIPConflict: true, detectOptions: ANSWERED };
    for (const families of [["ipv4"], []] as const) {
      const pod = await podWith(families);
      const before = await stateOf(lab.host);
      assert.equal(await lab.refusal("ADD", pod, { config }), conflict);
      const left = await pod.netns.ip("address", "show", "eth0");
      assert.ok(!left.includes(address), left);
      assert.deepEqual(await stateOf(lab.host), before);
    }
    assert.deepEqual(lab.warnings, []);
    await lab.ok("ADD", await podWith(["ipv4"]));
    assert.deepEqual(lab.warnings, [
      `Another machine has an address of the interface: the pod starts without it ${address} eth0`,
    ]);
    assert.equal(
      await lab.refusal("ADD", await podWith([])),
      '7 no usable IP addresses on "eth0"',
    );
  },
);

netnsTest(
  "coordinator: a conflict comes before a dead gateway, and an interface without a gateway has none to ask",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const config = { detectGateway: true, detectIPConflict: true };
    const found = { ...config, detectOptions: ANSWERED };
    await lab.joined([ETH0], { config: found });
    for (const family of FAMILIES) {
      const gateway = interfaceAddressIn(6, family, 1);
      await lab.switch.ip("address", "delete", gateway, "dev", "net6");
    }
    const second = await lab.pod([ETH0]);
    assert.match(
      await lab.refusal("ADD", second, { config: found }),
      /^11 ip conf/,
    );
    const third = await lab.pod([{ ...ETH0, number: 101 }]);
    for (const family of ["-4", "-6"]) {
      await third.netns.ip(family, "route", "delete", "default");
    }
    await lab.ok("ADD", third, { config });
  },
);

netnsTest(
  "coordinator: of a pod whose address is in use the network sees nothing but the question",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    await lab.joined([ETH0]);
    const second = await lab.pod([ETH0]);
    const [row] = await second.netns.ipJson("link", "show", "eth0");
    const mac = String(row?.["address"]);
    await using frames = await FrameCapture.open(lab.switch, "net6");
    const config = {
      detectIPConflict: true,
      detectGateway: true,
      detectOptions: ANSWERED,
      podMACPrefix: "0a:1b",
    };
    assert.match(await lab.refusal("ADD", second, { config }), /^11 ip conf/);
    const seen = [...frames.take(new Map([[mac, "second"]])).keys()];
    assert.deepEqual(seen.filter((text) => /second >|0a:1b:/.test(text)), [
      "net6: second > all: ARP 0.0.0.0 asks for 10.6.0.100",
    ]);
    const [after] = await second.netns.ipJson("link", "show", "eth0");
    assert.equal(after?.["address"], mac);
  },
);

netnsTest(
  "coordinator: others learn the MAC address that a prefix gives",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const pod = await lab.pod([ETH0]);
    for (const family of FAMILIES) {
      const address = addressIn(6, family, 100);
      assert.ok(await reaches(lab.switch, address));
    }
    await lab.ok("ADD", pod, { config: { podMACPrefix: "0a:1b" } });
    for (const family of FAMILIES) {
      const address = addressIn(6, family, 100);
      // What is sent may still be on its way through the kernel.
      await untilPasses(async () => {
        const known = await lab.switch.ip("neighbour", "show", address);
        assert.match(known, /0a:1b:0a:06:00:64/);
      });
    }
    assert.deepEqual(lab.warnings, []);
  },
);

netnsTest(
  "coordinator: without the capability NET_RAW a pod whose address should be checked does not start, and others do",
  async () => {
    await using lab = await CoordinatorLab.start(["ipv4"]);
    lab.door = async ({ env, stdin }) => {
      const child = new Deno.Command("setpriv", {
        args: [
          ...["--bounding-set=-net_raw", "--inh-caps=-net_raw"],
          ...["nsenter", `--net=${lab.host.path}`],
          ...[Deno.execPath(), "run", "-A", "-q", "--no-check"],
          ...[MAIN, "coordinator"],
        ],
        env: Object.fromEntries(env),
        stdin: "piped",
        stdout: "piped",
      }).spawn();
      const writer = child.stdin.getWriter();
      await writer.write(new Uint8Array(stdin));
      await writer.close();
      const { code, stdout } = await child.output();
      const text = new TextDecoder().decode(stdout);
      return { exitCode: code === 0 ? 0 : 1, stdout: text };
    };
    const pod = await lab.pod([ETH0]);
    const before = [await stateOf(pod.netns), await stateOf(lab.host)];
    const config = { detectIPConflict: true };
    const { stdout } = await lab.call("ADD", pod, { config });
    const { code, msg, details } = JSON.parse(stdout);
    assert.equal(
      `${code} ${msg}`,
      '999 cannot ask the network by interface "eth0"',
    );
    assert.match(details, /lacks the capability NET_RAW: add it to coild/);
    const after = [await stateOf(pod.netns), await stateOf(lab.host)];
    assert.deepEqual(after, before);
    await lab.ok("ADD", pod);
  },
);

/** What the coordinator says of an interface that nothing can be asked by. */
const UNASKED = (ifname: string) =>
  `Nothing was probed: the interface has no MAC address ${ifname}`;

netnsTest(
  "coordinator: by a link without MAC address nothing is asked, which is said, and a prefix for it is refused",
  async () => {
    await using lab = await CoordinatorLab.start(FAMILIES);
    const pod = await lab.pod([]);
    const { netns } = pod;
    // As the ends of tunnels have none, of any kind; and that of lo is all zeros.
    await netns.ip("tuntap", "add", "mode", "tun", "name", "eth0");
    await netns.ip("link", "set", "eth0", "up");
    const nics = [["eth0", 6], ["lo", 7]] as const;
    const config = { detectIPConflict: true, detectGateway: true };
    for (const [ifname, network] of nics) {
      for (const family of FAMILIES) {
        const address = interfaceAddressIn(network, family, 100);
        await netns.ip("address", "add", address, "dev", ifname);
        await untilUsed(netns, ifname, addressIn(network, family, 100));
        const options = family === "ipv4" ? "-4" : "-6";
        const gateway = ["via", addressIn(network, family, 1)];
        await netns.tryExec(
          ...["ip", options, "route", "add", "default"] as const,
          ...[...gateway, "dev", ifname],
        );
      }
      lab.warnings = [];
      const before = [await stateOf(netns), await stateOf(lab.host)];
      const refused = { ...config, podMACPrefix: "0a:1b" };
      assert.equal(
        await lab.refusal("ADD", pod, { ifname, config: refused }),
        `7 podMACPrefix does not fit interface "${ifname}"`,
      );
      assert.deepEqual([await stateOf(netns), await stateOf(lab.host)], before);
      await lab.ok("ADD", pod, { ifname, config });
      assert.ok(lab.warnings.includes(UNASKED(ifname)), `${lab.warnings}`);
      for (const family of FAMILIES) {
        const address = addressIn(network, family, 100);
        assert.ok(await reaches(lab.host, address), address);
      }
      await lab.ok("CHECK", pod, { ifname, config });
    }
  },
);
