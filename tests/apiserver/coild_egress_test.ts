import assert from "node:assert/strict";
import { announceHandler, type Announcement } from "../../lib/announce/mod.ts";
import { KubeClient } from "../../lib/kube/mod.ts";
import { ANNOUNCE_PORT } from "../../lib/names/mod.ts";
import { TokenReviews } from "../../roles/coil_egress/admission/token_reviews.ts";
import { assertWithin, eventually, lagWhile, writing } from "../lab/mod.ts";
import { MACHINE_HOST } from "../lab/network.ts";
import { untilQuiet } from "./audited.ts";
import { assertRefused, EgressLab, tunnelTo } from "./coild_egress_lab.ts";
import { type Coild, inPod, type Sandbox } from "./coild_lab.ts";
import type { RecordedClient } from "./recorded_plane.ts";

const ALL = { destinations: ["0.0.0.0/0", "::/0"] };
const PHASE = 'coil_coild_add_phase_seconds_count{phase="egress"}';
const CLIENTS = "coil_coild_egress_clients";
/** An ADD takes less, on a machine that has time. */
const ADD_MS = 5_000;
/** Of announcements, by default. */
const LIMIT_MS = 1_000;
const USED = 'coil_coild_addresses{pool="default",state="used"}';

/** Whether a client of {@linkcode ALL} has a way to IPv4 destinations, and is refused those of IPv6. */
function hasIpv4Only(client: RecordedClient | undefined): boolean {
  return client?.routes.join() ===
    "118 0.0.0.0/0 tunnel,118 0.0.0.0/0 refused,118 ::/0 refused";
}

Deno.test("coild makes egress clients at ADD", async (t) => {
  await using egress = await EgressLab.start("coildegress", {
    audit: "metadata",
  });
  const { lab, plane } = egress;
  await using coild = await egress.coild();
  const noneUsed = () =>
    eventually(
      "all addresses to be free",
      async () => await coild.metric(USED) === 0,
    );
  const names = (count: number) =>
    Array.from({ length: count }, (_, i) => `n${i}`).join();
  /** How many Egresses coild asks the API server for while something goes on. */
  const countQuestions = async (during: () => Promise<void>) => {
    const since = new Date();
    await during();
    const user = "system:serviceaccount:kube-system:coild";
    // The log follows the answers.
    await untilQuiet(lab.plane, user);
    const requests = await lab.plane.auditRequests({ since, user });
    return requests.filter(({ resource, verb }) =>
      resource === "egresses" && verb === "get"
    ).length;
  };

  await t.step(
    "ADD answers when the pod is a client, of both families",
    async () => {
      const [ipv4 = "", ipv6 = ""] = await egress.createEgress("both", ALL, [
        { address: "10.9.0.1", pod: "gw1" },
        { address: "10.9.0.2", pod: "gw2" },
      ]);
      const pod = await egress.createClient("first", "both");
      const [own4, own6] = await coild.addresses(pod);
      // Gateways come by watches, and later ones too.
      await egress.until(
        "all gateways",
        pod,
        (client) => client?.senders?.length === 4,
      );
      const client = await plane.of(pod);
      assert.equal(client?.tunnels.length, 2);
      const [first = "", second = ""] = client?.tunnels ?? [];
      const hex = ipv4.split(".").map((n) =>
        Number(n).toString(16).padStart(2, "0")
      ).join("");
      assert.equal(first, `fou4_${hex} ${own4} > ${ipv4} 5555`);
      assert.ok(second.endsWith(` ${own6} > ${ipv6} 5555`), second);
      assert.deepEqual(client?.routes, [
        "118 0.0.0.0/0 tunnel",
        "118 0.0.0.0/0 refused",
        "118 ::/0 tunnel",
        "118 ::/0 refused",
      ]);
      assert.deepEqual(client?.senders, [
        ...["10.9.0.1", "10.9.0.2", "fd09::1", "fd09::2"],
      ]);
      assert.deepEqual([client?.port, client?.originatingOnly], [5555, false]);
      assert.equal(await coild.metric(PHASE), 1);
      assert.equal(await coild.metric(CLIENTS), 1);
      await coild.del(pod);
      assert.equal(await coild.metric(CLIENTS), 0);
    },
  );

  await t.step(
    "SV-10, W12: a missing Egress, and then its Service, refuse ADD with code, Event and no address; it recovers by itself",
    async () => {
      const pod = await egress.createClient("early", "late");
      await assertRefused(egress, {
        coild,
        pod,
        message:
          /pod "default\/early".*Egress "nat\/late" does not exist.*egress\.coil\.cybozu\.com\/nat/,
      });
      await noneUsed();
      assert.match(await egress.event(pod, "EgressNotFound"), /Egress "nat/);
      await egress.applyEgress("late", ALL);
      await assertRefused(egress, {
        coild,
        pod,
        message: /Service "nat\/late" does not exist.*coil-controller/,
      });
      await egress.createService("late");
      // As fast as that: no cache needs to have it.
      await coild.add(pod);
      assert.equal((await plane.of(pod))?.tunnels.length, 2);
      await coild.del(pod);
    },
  );

  await t.step(
    "the namespace may be missing too: the same error",
    async () => {
      const annotations = { "egress.coil.cybozu.com/nowhere": "x" };
      const pod = await lab.createPod("lost", { annotations });
      const message = /Egress "nowhere\/x" does not exist/;
      await assertRefused(egress, { coild, pod, message });
    },
  );

  await t.step(
    "names that no Egress can have, and thousands of them: an error, and no question",
    async () => {
      const questions = await countQuestions(async () => {
        const impossible = /which cannot be the name of an Egress/;
        const tooMany = /name 5000 Egresses, at most 64 are allowed/;
        for (
          const { name, list, message } of [
            { name: "dot", list: ".", message: impossible },
            { name: "dots", list: "..", message: impossible },
            { name: "slash", list: "a/../b", message: impossible },
            { name: "odd", list: "Ä x?y#z%2e", message: impossible },
            { name: "many", list: names(5_000), message: tooMany },
          ]
        ) {
          const pod = await egress.createClient(name, list);
          await assertRefused(egress, { coild, pod, message });
        }
      });
      assert.equal(questions, 0);
    },
  );

  await t.step("64 names: few questions", async () => {
    const pod = await egress.createClient("sixty-four", names(64));
    const message = /Egress "nat\/.+" does not exist/;
    const questions = await countQuestions(
      () => assertRefused(egress, { coild, pod, message }),
    );
    assert.equal(questions, 16);
  });

  await t.step("spaces and repetitions in the list do not count", async () => {
    const [ipv4 = ""] = await egress.createEgress("spaced", {
      destinations: ["192.0.2.0/24"],
      fouSourcePortAuto: true,
    });
    const pod = await egress.createClient("spaces", " spaced ,, spaced,");
    await coild.add(pod);
    const client = await plane.of(pod);
    assert.equal(client?.tunnels.length, 1);
    assert.match(client?.tunnels[0] ?? "", tunnelTo(ipv4));
    assert.match(client?.tunnels[0] ?? "", / auto$/);
    await coild.del(pod);
  });

  await t.step(
    "W30: a destination of two Egresses goes to the first by name, and the pod is told",
    async () => {
      await egress.createEgress("aa", { destinations: ["198.51.100.0/24"] });
      await egress.createEgress("bb", {
        destinations: ["198.51.100.0/24", "203.0.113.0/24"],
      });
      const pod = await egress.createClient("shared", "bb,aa");
      await coild.add(pod);
      assert.equal((await plane.of(pod))?.tunnels.length, 2);
      assert.match(
        await egress.event(pod, "EgressShadowed"),
        /"198\.51\.100\.0\/24" of Egress "nat\/bb" goes through Egress "nat\/aa"/,
      );
      await coild.del(pod);
    },
  );

  await t.step(
    "destinations of a family that the pod lacks do nothing, and the pod is told",
    async () => {
      await egress.createEgress("six", { destinations: ["2001:db8::/32"] });
      const pod = await egress.createClient("four", "six", { namespace: "v4" });
      await coild.add(pod);
      assert.equal(await plane.of(pod), undefined);
      // So it has lost nothing.
      await coild.check(pod);
      assert.match(
        await egress.event(pod, "EgressFamilyMismatch"),
        /"nat\/six" has no effect.*IPv6, in which the pod has no address/,
      );
      await coild.del(pod);
    },
  );

  await t.step(
    "destinations of a family that the Service alone lacks are refused, and the pod is told, until it has it",
    async () => {
      await egress.applyEgress("single", ALL);
      await egress.createService("single", {
        ipFamilyPolicy: "SingleStack",
        ipFamilies: ["IPv4"],
      });
      await egress.setGateways("single", [{ address: "10.9.0.1" }]);
      const { pod } = await egress.runClient(coild, "dual", "single");
      await egress.until("the gateway", pod, hasIpv4Only);
      assert.match(
        await egress.event(pod, "EgressFamilyMismatch"),
        /"nat\/single" has IPv6 destinations.*are rejected/,
      );
      await egress.deleteService("single");
      await egress.createService("single");
      await egress.setGateways("single", [{ address: "10.9.0.1" }]);
      await egress.until(
        "a tunnel of IPv6",
        pod,
        (now) => now?.routes.includes("118 ::/0 tunnel") === true,
      );
      await egress.event(pod, "EgressFamilyMatch", "Normal");
      await coild.del(pod);
    },
  );

  await t.step(
    "without a ready gateway the pod starts, and is refused what it would send",
    async () => {
      await egress.createEgress("down", { destinations: ["192.0.2.0/24"] }, [
        { address: "10.9.0.1", ready: false },
      ]);
      const pod = await egress.createClient("waits", "down");
      await coild.add(pod);
      assert.deepEqual((await plane.of(pod))?.routes, [
        "118 192.0.2.0/24 refused",
      ]);
      const message = await egress.event(pod, "EgressUnavailable");
      assert.match(
        message,
        /"nat\/down" has no ready gateway.*are rejected until one is ready/,
      );
      await coild.del(pod);
    },
  );

  await t.step(
    "without a gateway of one family that one is refused, and the pod is told",
    async () => {
      await egress.createEgress("half", ALL, [
        { address: "10.9.0.1", isSingle: true },
      ]);
      // Before coild knows the gateway, it says that there is none at all.
      await egress.untilKnown(coild, "half", hasIpv4Only);
      const { pod } = await egress.runClient(coild, "halved", "half");
      const client = await plane.of(pod);
      // The tunnel stays, so that nothing but a route is missing.
      assert.equal(client?.tunnels.length, 2);
      assert.ok(hasIpv4Only(client), `${client?.routes}`);
      assert.match(
        await egress.event(pod, "EgressUnavailable"),
        /"nat\/half" has no ready gateway in IPv6.*are rejected/,
      );
      await egress.setGateways("half", [{ address: "10.9.0.1" }]);
      await egress.event(pod, "EgressAvailable", "Normal");
      await egress.until("all routes", pod, (now) => now?.routes.length === 4);
      await coild.del(pod);
    },
  );

  await t.step(
    "W11: a failure after the network is up takes everything back",
    async () => {
      const pod = await egress.createClient("broken", "both");
      {
        await using _fault = await plane.fault("broken");
        const error = await coild.refused(coild.add(pod));
        assert.equal(error.status, "Internal");
        assert.equal(await plane.of(pod), undefined);
        await noneUsed();
        // Its deletion is begun before ADD answers, and takes the kernel a while.
        await eventually(
          "the interface to be gone",
          async () => !(await inPod(pod, "ip", "-br", "link")).includes("eth0"),
        );
      }
      await coild.add(pod);
      await coild.check(pod);
      await coild.del(pod);
    },
  );

  await t.step(
    "a second ADD of the same sandbox does not take its namespace for new, and has the gateways of then",
    async () => {
      await egress.createEgress("former", ALL);
      const [ipv4 = ""] = await egress.createEgress("latter", ALL);
      const pod = await egress.createClient("twice", "former");
      await coild.add(pod);
      await egress.annotate(pod, "latter");
      await coild.add(pod);
      await egress.until(
        "a tunnel to the other Egress",
        pod,
        (now) => tunnelTo(ipv4).test(now?.tunnels[0] ?? ""),
      );
      assert.equal((await plane.of(pod))?.tunnels.length, 2);
      const { ino } = await Deno.stat(`/run/netns/${pod.netns}`);
      const calls = (await plane.calls()).filter(({ inode, edge }) =>
        inode === `${ino}` && edge === "begin"
      );
      assert.equal(calls[0]?.isFresh, true);
      assert.ok(calls.length >= 2, JSON.stringify(calls));
      assert.ok(calls.slice(1).every(({ isFresh }) => !isFresh));
      await coild.del(pod);
    },
  );

  await t.step(
    "a kernel without tunnels: clients are refused with code and Event, others served",
    async () => {
      await using _fault = await plane.fault("unsupported");
      const pod = await egress.createClient("nofou", "both");
      await assertRefused(egress, { coild, pod, message: /Foo over UDP/ });
      assert.match(
        await egress.event(pod, "EgressUnsupported"),
        /^Cannot make pod "[^"]*nofou" a client of Egress "[^"]*both": .*modules/,
      );
      const plain = await egress.createClient("plain", undefined);
      await coild.add(plain);
      await coild.del(plain);
    },
  );

  await t.step(
    "pods without the annotation, and second interfaces, cost nothing",
    async () => {
      const before = (await plane.calls()).length;
      const pod = await egress.createClient("none", undefined);
      await coild.add(pod);
      await coild.del(pod);
      const multi = await egress.createClient("multi", "both");
      await coild.add(multi, { ifname: "net1" });
      await coild.del(multi, { ifname: "net1" });
      assert.equal((await plane.calls()).length, before);
    },
  );

  await t.step(
    "CHECK finds a client that is none any more, which is made one again",
    async () => {
      const pod = await egress.createClient("wiped", "both");
      await coild.add(pod);
      await coild.check(pod);
      for await (const { name } of Deno.readDir(plane.dir)) {
        if (name.endsWith(".json")) await Deno.remove(`${plane.dir}/${name}`);
      }
      const error = await coild.refused(coild.check(pod));
      assert.match(
        error.message,
        /all of it is missing; its egress is being repaired/,
      );
      await egress.until("a client", pod, (client) => client !== undefined);
      await coild.check(pod);
      await coild.del(pod);
    },
  );

  await t.step("W12: CNI codes survive what is behind them", async () => {
    const sandbox = await lab.createSandbox("nobody");
    const error = await coild.refused(coild.add(sandbox));
    assert.deepEqual([error.status, error.code], ["NotFound", 3]);
  });
});

Deno.test("coild tells gateways of new clients", async (t) => {
  await using egress = await EgressLab.start("coildannounce");
  const { lab: { plane } } = egress;
  const machine = plane.subnet.address("ipv4", MACHINE_HOST);
  // But for the last step no announcement is late, however busy the machine is.
  const flags = ["--egress-announce-timeout=2m"];
  const result = (text: string) =>
    `coil_coild_egress_announcements_total{result="${text}"}`;
  /** Adds pods and deletes them: each ADD within its usual time, and what announcements may take. */
  const assertAddsSoon = async (
    coild: Coild,
    announceMs: number,
    work: (add: (pod: Sandbox) => Promise<void>) => Promise<void>,
  ) => {
    let longestMs = 0;
    const { lagMs } = await lagWhile(() =>
      work(async (pod) => {
        const begunMs = performance.now();
        await coild.add(pod);
        longestMs = Math.max(longestMs, performance.now() - begunMs);
        await coild.del(pod);
      }), { step: writing(plane) });
    const limitMs = ADD_MS + announceMs;
    assertWithin(longestMs, { what: "an ADD", limitMs, lagMs });
  };
  await egress.createEgress("told", ALL, [{ address: machine, pod: "gw" }]);
  await using coild = await egress.coild(flags);

  await t.step("without a token it says so once, and goes on", async () => {
    for (const name of ["a", "b"]) {
      const pod = await egress.createClient(name, "told");
      await coild.add(pod);
      await coild.del(pod);
    }
    assert.equal(await coild.metric(result("no-token")), 2);
    const lines = (await coild.process.logs()).split("\n");
    const said = lines.filter((line) => line.includes("Cannot get a token"));
    assert.equal(said.length, 1);
  });

  await coild.process.kill9();
  await using again = await egress.coild(flags, { ownPod: true });

  await t.step(
    "a gateway that listens to nobody is left alone, and costs no time",
    async () => {
      let pods = 0;
      await assertAddsSoon(again, 0, async (add) => {
        // The next one, unless that comes 10 s later.
        await eventually("an ADD that leaves it alone", async () => {
          await add(await egress.createClient(`c${pods++}`, "told"));
          return await again.metric(result("deaf")) === 1;
        });
      });
      assert.equal(await again.metric(result("failed")), pods - 1);
      assert.equal(await again.metric(result("late")), undefined);
    },
  );

  await again.process.kill9();
  await using third = await egress.coild(flags, { ownPod: true });
  const told: Announcement[] = [];
  const gate = { wait: Promise.resolve() };
  using reviewer = await KubeClient.load({ kubeconfig: plane.kubeconfig });
  const reviews = new TokenReviews(reviewer, {
    audience: "coil-egress/nat/told",
    user: "system:serviceaccount:kube-system:coild",
  });
  const handle = announceHandler({
    authenticate: (token, peer) => reviews.callerOf(token, peer),
    takeLosses: () => ({ status: 204 }),
    takeSources: () => ({ status: 204 }),
    admit: async (announcement) => {
      told.push(announcement);
      await gate.wait;
      return { status: 204 };
    },
  });
  const server = Deno.serve(
    { hostname: machine, port: ANNOUNCE_PORT, onListen: () => {} },
    (request, { remoteAddr }) => handle(request, remoteAddr.hostname),
  );

  await t.step(
    "W40: the gateway knows the pod and its addresses before ADD answers",
    async () => {
      const pod = await egress.createClient("e", "told");
      const addresses = await third.addresses(pod);
      const [announcement] = told;
      assert.deepEqual(announcement?.egress, {
        namespace: "nat",
        name: "told",
      });
      assert.deepEqual(announcement?.addresses.map(String), addresses);
      assert.equal(announcement?.block, "default-0");
      const object = await plane.request(
        "GET",
        "/api/v1/namespaces/default/pods/e",
      ) as { metadata: { uid: string } };
      const { uid } = object.metadata;
      assert.deepEqual(announcement?.pod, {
        namespace: "default",
        name: "e",
        uid,
      });
      assert.equal(await third.metric(result("accepted")), 1);
      await third.del(pod);
    },
  );

  await t.step("it is told before the pod's tunnels are made", async () => {
    told.length = 0;
    const pod = await egress.createClient("g", "told");
    let adding: Promise<unknown>;
    {
      await using _hold = await egress.plane.fault("held");
      adding = third.add(pod);
      await eventually("the announcement", () => told.length === 1);
      assert.equal(await egress.plane.of(pod), undefined);
    }
    await adding;
    assert.equal(told.length, 1);
    await third.del(pod);
  });

  await third.process.kill9();
  await using fourth = await egress.coild([], { ownPod: true });

  await t.step("a gateway that hangs costs the limit and no more", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    gate.wait = promise;
    const late = async () => await fourth.metric(result("late")) ?? 0;
    let pods = 0;
    await assertAddsSoon(fourth, LIMIT_MS, async (add) => {
      // The first one, unless the machine is so busy that the gateway does not hear of it within the limit.
      await eventually("an ADD that the gateway heard of", async () => {
        const before = await late();
        const name = `f${pods++}`;
        // It answers, and the gateway does not.
        await add(await egress.createClient(name, "told"));
        return told.some(({ pod }) => pod.name === name) &&
          await late() === before + 1;
      });
    });
    resolve();
  });
  await server.shutdown();
});

Deno.test("coild without egress ignores what pods ask for, and says so", async () => {
  await using egress = await EgressLab.start("coildnoegress");
  await using coild = await egress.coild(["--enable-egress=false"]);
  const pod = await egress.createClient("ignored", "nothing");
  await coild.add(pod);
  assert.equal(await egress.plane.of(pod), undefined);
  const logs = await coild.process.logs();
  assert.match(logs, /Ignored a pod's egress annotations.*nat\/nothing/);
  await coild.del(pod);
});
