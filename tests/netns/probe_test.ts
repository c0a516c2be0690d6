import assert from "node:assert/strict";
import { untilPasses } from "../../lib/async/testing.ts";
import { sleep, TaskGroup } from "../../lib/async/mod.ts";
import { Address, FAMILIES, type Family } from "../../lib/inet/mod.ts";
import {
  ETH_P_ARP,
  ETH_P_IPV6,
  LinuxError,
  Netns,
  openPacketSocket,
} from "../../lib/linux/mod.ts";
import { arpRequest, parseArp } from "../../lib/probe/arp.ts";
import { framesAbout } from "../../lib/probe/filter.ts";
import { parseNdp, unsolicitedAdvertisement } from "../../lib/probe/ndp.ts";
import {
  announce,
  answers,
  findConflict,
  type ProbeLink,
} from "../../lib/probe/mod.ts";
import { FrameCapture } from "./frame_capture.ts";
import { netnsTest, type TempNetns, tempNetns } from "./testing.ts";

const TIMES = { retries: 3, intervalMs: 60, timeoutMs: 100 };
/** Where an answer comes: it ends with that, however long a busy kernel takes for it. */
const ANSWERED = { ...TIMES, timeoutMs: 3_000 };

/** Two machines on one link, whose kernels answer as kernels do. */
class Wire implements AsyncDisposable {
  readonly ours: TempNetns;
  readonly theirs: TempNetns;
  readonly #stack = new AsyncDisposableStack();

  private constructor(ours: TempNetns, theirs: TempNetns) {
    this.ours = this.#stack.use(ours);
    this.theirs = this.#stack.use(theirs);
  }

  static async make(): Promise<Wire> {
    const wire = new Wire(await tempNetns("ours"), await tempNetns("theirs"));
    await wire.ours.ip(
      ...["link", "add", "eth0", "type", "veth"],
      ...["peer", "name", "eth0", "netns", wire.theirs.name],
    );
    for (const netns of [wire.ours, wire.theirs]) {
      await netns.ip("link", "set", "eth0", "up");
    }
    return wire;
  }

  async link(netns: TempNetns): Promise<ProbeLink> {
    const [row] = await netns.ipJson("link", "show", "eth0");
    return {
      netns: this.#stack.use(Netns.open(netns.path)),
      index: Number(row?.["ifindex"]),
      mac: String(row?.["address"]),
    };
  }

  async address(netns: TempNetns, address: Address): Promise<void> {
    const length = address.family === "ipv4" ? 24 : 64;
    const nodad = address.family === "ipv4" ? [] : ["nodad"];
    await netns.ip(
      ...["address", "add", `${address}/${length}`, "dev", "eth0"],
      ...nodad,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack[Symbol.asyncDispose]();
  }
}

function isAskedFor(frame: Uint8Array, address: Address): boolean {
  const { target } = parseArp(frame) ?? parseNdp(frame) ?? {};
  return target?.equals(address) ?? false;
}

/** A machine whose kernel does not have the address, and which answers one question for it, late. */
async function answerLate(
  { netns, index, mac }: ProbeLink,
  { address, question = 1, lateMs = 0 }: {
    readonly address: Address;
    readonly question: number | undefined;
    readonly lateMs: number | undefined;
  },
): Promise<AsyncDisposable> {
  const { family } = address;
  const protocol = family === "ipv4" ? ETH_P_ARP : ETH_P_IPV6;
  const socket = openPacketSocket({ netns, index, protocol });
  const buffer = new Uint8Array(128);
  const tasks = new TaskGroup();
  tasks.run("answers", async (signal) => {
    for (let asked = 0; !signal.aborted;) {
      const length = socket.receiveNow(buffer);
      if (length === undefined) {
        await sleep(1, { signal });
        continue;
      }
      if (!isAskedFor(buffer.subarray(0, length), address)) continue;
      if (++asked !== question) continue;
      await sleep(lateMs, { signal });
      socket.sendNow(
        family === "ipv4"
          ? arpRequest({ mac, sender: address, target: address })
          : unsolicitedAdvertisement({ mac, address }),
      );
      asked = 0;
    }
  });
  return {
    async [Symbol.asyncDispose]() {
      await tasks[Symbol.asyncDispose]();
      await socket[Symbol.asyncDispose]();
    },
  };
}

function addressOf(family: Family, number: number): Address {
  return Address.parse(
    family === "ipv4" ? `10.6.0.${number}` : `fd00:10:6::${number}`,
  );
}

for (const family of FAMILIES) {
  const [own, other] = [addressOf(family, 10), addressOf(family, 20)];

  netnsTest(
    `probe: an address is free, or another machine's, ${family}`,
    async () => {
      await using wire = await Wire.make();
      const link = await wire.link(wire.ours);
      const { mac } = await wire.link(wire.theirs);
      // What we have ourselves is no conflict.
      await wire.address(wire.ours, own);
      assert.equal(await findConflict(link, own, TIMES), undefined);
      assert.equal(await findConflict(link, other, TIMES), undefined);
      await wire.address(wire.theirs, other);
      assert.equal(await findConflict(link, other, ANSWERED), mac);
      // The question has told them nothing about us.
      const known = await wire.theirs.ip("neighbour", "show");
      assert.ok(!known.includes(own.toString()), known);
    },
  );

  netnsTest(
    `probe: of two that ask for one address at the same time one learns of the other at least, ${family}`,
    async () => {
      await using wire = await Wire.make();
      const [ours, theirs] = [
        await wire.link(wire.ours),
        await wire.link(wire.theirs),
      ];
      // As the plugin before has left it: groups of IPv6 are joined.
      if (family === "ipv6") {
        for (const netns of [wire.ours, wire.theirs]) {
          await netns.ip("address", "add", `${own}/64`, "dev", "eth0");
        }
      }
      const found = await Promise.all([
        findConflict(ours, own, ANSWERED),
        findConflict(theirs, own, ANSWERED),
      ]);
      // Who has learned of the other asks no more, so one may get the address.
      assert.notDeepEqual(found, [undefined, undefined]);
      for (const [i, mac] of [theirs.mac, ours.mac].entries()) {
        assert.ok(found[i] === undefined || found[i] === mac, `${found}`);
      }
    },
  );

  netnsTest(
    `probe: an owner that misses the first question answers the next, ${family}`,
    async () => {
      await using wire = await Wire.make();
      const link = await wire.link(wire.ours);
      const asking = findConflict(link, other, {
        retries: 400,
        intervalMs: 50,
        timeoutMs: 100,
      });
      await wire.address(wire.theirs, other);
      assert.equal(await asking, (await wire.link(wire.theirs)).mac);
    },
  );

  netnsTest(
    `probe: an answer counts to whichever question it comes, until the end of the last one's time, ${family}`,
    async () => {
      await using wire = await Wire.make();
      const link = await wire.link(wire.ours);
      const owner = await wire.link(wire.theirs);
      // Long enough for a busy machine to be in time.
      const times = { retries: 3, intervalMs: 100, timeoutMs: 60_000 };
      // Of questions and milliseconds.
      for (const [question, lateMs] of [[1, 1], [2, 50], [3, 0], [3, 250]]) {
        await using _slow = await answerLate(owner, {
          address: other,
          question,
          lateMs,
        });
        assert.equal(await findConflict(link, other, times), owner.mac);
        assert.ok(
          await answers(link, { gateway: other, source: own }, times),
          `question ${question}, ${lateMs} ms`,
        );
      }
      {
        // Seen when it comes, not when the next question is due.
        const first = { address: other, question: 1, lateMs: 50 };
        await using _first = await answerLate(owner, first);
        const rare = { ...times, intervalMs: 86_400_000 };
        assert.equal(await findConflict(link, other, rare), owner.mac);
      }
      const late = { address: other, question: 3, lateMs: 3_600_000 };
      await using _late = await answerLate(owner, late);
      const short = { ...times, timeoutMs: 100 };
      assert.equal(await findConflict(link, other, short), undefined);
    },
  );

  netnsTest(`probe: a gateway answers, or it does not, ${family}`, async () => {
    await using wire = await Wire.make();
    const link = await wire.link(wire.ours);
    await wire.address(wire.ours, own);
    const asked = { gateway: other, source: own };
    assert.equal(await answers(link, asked, TIMES), false);
    await wire.address(wire.theirs, other);
    assert.equal(await answers(link, asked, ANSWERED), true);
  });

  netnsTest(
    `probe: frames about other addresses are not even read, ${family}`,
    async () => {
      await using wire = await Wire.make();
      const theirs = await wire.link(wire.theirs);
      const protocol = family === "ipv4" ? ETH_P_ARP : ETH_P_IPV6;
      await using reader = openPacketSocket({
        ...await wire.link(wire.ours),
        protocol,
        filter: framesAbout(other),
      });
      const near = addressOf(family, 21);
      for (const address of [own, near, other, near, other]) {
        await announce(theirs, address, { retries: 1, intervalMs: 0 });
      }
      const read: string[] = [];
      const buffer = new Uint8Array(128);
      await untilPasses(() => {
        for (;;) {
          const length = reader.receiveNow(buffer);
          if (length === undefined) break;
          const frame = buffer.subarray(0, length);
          read.push(`${(parseArp(frame) ?? parseNdp(frame))?.target}`);
        }
        // The second one is the last of all frames.
        assert.equal(read.filter((each) => each === `${other}`).length, 2);
      });
      assert.deepEqual(read, [`${other}`, `${other}`]);
    },
  );

  netnsTest(
    `probe: an announcement gives others the new MAC address, ${family}`,
    async () => {
      await using wire = await Wire.make();
      await wire.address(wire.ours, own);
      await wire.address(wire.theirs, other);
      await wire.theirs.exec("ping", "-c1", "-w20", own.toString());
      const mac = "0a:1b:00:00:00:10";
      await wire.ours.ip("link", "set", "eth0", "address", mac);
      const known = () => wire.theirs.ip("neighbour", "show", own.toString());
      assert.ok(!(await known()).includes(mac));
      const link = await wire.link(wire.ours);
      await announce(link, own, { retries: 3, intervalMs: 10 });
      await untilPasses(async () =>
        assert.match(await known(), new RegExp(mac))
      );
    },
  );
}

netnsTest(
  "probe: each question has its whole time, and none is left out, however late the process is",
  async () => {
    await using wire = await Wire.make();
    const link = await wire.link(wire.ours);
    const own = addressOf("ipv4", 10);
    await using frames = await FrameCapture.open(wire.theirs, "eth0");
    const times = { retries: 3, intervalMs: 20, timeoutMs: 50 };
    const lateMs = 200;
    const start = performance.now();
    const [asking, announcing] = [
      findConflict(link, own, times),
      announce(link, own, times),
    ];
    while (performance.now() < start + lateMs);
    assert.equal(await asking, undefined);
    const { intervalMs, timeoutMs } = times;
    // The second question was late, and the third after it.
    assert.ok(performance.now() - start >= lateMs + intervalMs + timeoutMs);
    await announcing;
    assert.deepEqual([...frames.take(new Map([[link.mac, "ours"]]))], [
      ["eth0: ours > all: ARP 0.0.0.0 asks for 10.6.0.10", 3],
      ["eth0: ours > all: ARP 10.6.0.10 asks for 10.6.0.10", 3],
    ]);
  },
);

netnsTest("probe: a link that is down or gone is an error", async () => {
  await using wire = await Wire.make();
  const link = await wire.link(wire.ours);
  const address = addressOf("ipv4", 10);
  await wire.ours.ip("link", "set", "eth0", "down");
  await assert.rejects(findConflict(link, address, TIMES), LinuxError);
  await wire.ours.ip("link", "set", "eth0", "up");
  const asking = assert.rejects(
    findConflict(link, address, { ...TIMES, retries: 100 }),
    LinuxError,
  );
  await wire.ours.ip("link", "delete", "eth0");
  await asking;
});

netnsTest(
  "probe: a link without ARP asks all the same, and a machine without ARP is not found",
  async () => {
    await using wire = await Wire.make();
    const link = await wire.link(wire.ours);
    const { mac } = await wire.link(wire.theirs);
    const [own, other] = [addressOf("ipv4", 10), addressOf("ipv4", 20)];
    await wire.address(wire.theirs, other);
    await wire.ours.ip("link", "set", "eth0", "arp", "off");
    assert.equal(await findConflict(link, other, ANSWERED), mac);
    const asked = { gateway: other, source: own };
    assert.equal(await answers(link, asked, ANSWERED), true);
    await wire.theirs.ip("link", "set", "eth0", "arp", "off");
    assert.equal(await findConflict(link, other, TIMES), undefined);
    assert.equal(await answers(link, asked, TIMES), false);
  },
);

/** How many frames a link has received. */
async function receivedBy(netns: TempNetns): Promise<number> {
  const [row] = await netns.ipJson("-s", "link", "show", "eth0");
  const { rx } = row?.["stats64"] as { rx: { packets: number } };
  return rx.packets;
}

netnsTest(
  "probe: 10,000 ARP packets a second hide no owner, and do not make a question longer",
  async () => {
    await using wire = await Wire.make();
    const link = await wire.link(wire.ours);
    const { index, mac } = await wire.link(wire.theirs);
    const [own, other] = [addressOf("ipv4", 10), addressOf("ipv4", 20)];
    await wire.address(wire.ours, own);
    await wire.address(wire.theirs, other);
    const noise = new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", "--no-check", "-A"],
        new URL("./arp_noise_main.ts", import.meta.url).pathname,
        ...[wire.theirs.path, String(index)],
      ],
      stdout: "null",
      stderr: "null",
    }).spawn();
    try {
      const before = await receivedBy(wire.ours);
      await untilPasses(async () =>
        assert.ok(await receivedBy(wire.ours) > before + 1_000)
      );
      const long = { ...TIMES, timeoutMs: 1_000 };
      // A busy machine may hold up the noise: then it is asked again.
      let noise = 0;
      for (let tries = 0; noise <= 1_000; tries++) {
        assert.ok(tries < 20, `${noise} frames`);
        const start = await receivedBy(wire.ours);
        assert.equal(
          await findConflict(link, addressOf("ipv4", 30), long),
          undefined,
        );
        noise = await receivedBy(wire.ours) - start;
      }
      assert.equal(await findConflict(link, other, ANSWERED), mac);
      const asked = { gateway: other, source: own };
      assert.equal(await answers(link, asked, ANSWERED), true);
    } finally {
      noise.kill("SIGKILL");
      await noise.status;
    }
  },
);

netnsTest(
  "probe: of 110 addresses that are asked for at once, just those of another machine are found",
  async () => {
    await using wire = await Wire.make();
    const link = await wire.link(wire.ours);
    const { mac } = await wire.link(wire.theirs);
    const numbers = Array.from({ length: 110 }, (_, i) => 20 + i);
    const taken = numbers.filter((number) => number % 3 === 0);
    for (const number of taken) {
      await wire.address(wire.theirs, addressOf("ipv4", number));
    }
    const found = await Promise.all(
      numbers.map((n) => findConflict(link, addressOf("ipv4", n), ANSWERED)),
    );
    assert.deepEqual(
      found,
      numbers.map((number) => taken.includes(number) ? mac : undefined),
    );
  },
);
