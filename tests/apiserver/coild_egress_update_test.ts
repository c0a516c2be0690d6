import assert from "node:assert/strict";
import { awaitedLater, eventually, sleep } from "../lab/mod.ts";
import {
  ANNOTATION,
  EgressLab,
  EVENT_DELAY_MS,
  tunnelTo,
} from "./coild_egress_lab.ts";

const WIDE = { destinations: ["0.0.0.0/0", "::/0"] };
const NET = "192.0.2.0/24";

/** Long enough for a change that must not come. */
const QUIET_MS = 500;

Deno.test("coild keeps its egress clients up to date", async (t) => {
  await using egress = await EgressLab.start("coildupdate");
  const { lab, plane } = egress;
  const coild = await egress.coild();

  await t.step(
    "what gateways write into the status of an Egress changes no client",
    async () => {
      // The first step: a look at a pod of another one may come 30 s after its conflict.
      await egress.createEgress("chatty", { destinations: [NET] });
      const { pod } = await egress.runServed(coild, "chatty", "chatty");
      const looks = async () =>
        await coild.metric('coil_coild_egress_updates_total{result="ok"}') ?? 0;
      // The pod's status has been seen with what came after it.
      const later = await egress.createClient("later", undefined);
      await coild.knows(later);
      const before = await eventually("no more looks", async () => {
        const count = await looks();
        await sleep(4 * QUIET_MS);
        return await looks() === count && count;
      });
      for (const clients of [1, 2, 3]) {
        await lab.plane.request(
          "PATCH",
          "/apis/coil.cybozu.com/v2/namespaces/nat/egresses/chatty/status",
          { status: { clients } },
          { contentType: "application/merge-patch+json" },
        );
      }
      await sleep(QUIET_MS);
      assert.equal(await looks(), before);
      await coild.del(pod);
      for (const each of [pod, later]) await lab.deletePod(each);
    },
  );

  await t.step(
    "CT-26: an edited Egress changes its running clients, once, and nobody else",
    async () => {
      await egress.createEgress("ct26", WIDE);
      await egress.createEgress("other", { destinations: [NET] });
      await lab.createNamespace("far");
      const { pod: client } = await egress.runServed(coild, "client", "ct26");
      const { pod: other } = await egress.runServed(coild, "other", "other");
      const { pod: done, ips } = await egress.runServed(coild, "done", "ct26");
      await egress.setStatus(done, { ips, phase: "Succeeded" });
      // The name in another namespace's list is another Egress.
      const stranger = await lab.createPod("stranger", {
        annotations: { "egress.coil.cybozu.com/far": "ct26" },
      });
      await egress.setStatus(stranger, { ips: ["10.150.0.200"] });
      const all = [client, other, done];
      const before = await Promise.all(all.map((pod) => plane.changes(pod)));
      await egress.applyEgress("ct26", {
        destinations: [NET, "2001:db8::/32"],
        fouSourcePortAuto: true,
      });
      await egress.until(
        "the new destinations",
        client,
        (now) =>
          now?.routes.filter((route) => route.includes("tunnel")).join() ===
            `118 ${NET} tunnel,118 2001:db8::/32 tunnel`,
      );
      const { tunnels = [] } = await plane.of(client) ?? {};
      assert.deepEqual(tunnels.map((text) => text.split(" ").at(-1)), [
        "auto",
        "auto",
      ]);
      await sleep(QUIET_MS);
      const after = await Promise.all(all.map((pod) => plane.changes(pod)));
      const [ofClient = 0, ...ofOthers] = before;
      assert.deepEqual(after, [ofClient + 1, ...ofOthers]);
      for (const pod of all) {
        await coild.del(pod);
        await lab.deletePod(pod);
      }
    },
  );

  await t.step(
    "CT-27, W33: of two running pods with one address none is changed, the others are",
    async () => {
      await egress.createEgress("ct27", { destinations: [NET] });
      const { pod: third } = await egress.runServed(coild, "third", "ct27");
      const { pod: a, ips } = await egress.runServed(coild, "a", "ct27");
      const b = await egress.createClient("b", "ct27");
      await egress.setStatus(b, { ips });
      assert.match(await egress.event(a, "AddressConflict"), /"default\/b"/);
      assert.match(await egress.event(b, "AddressConflict"), /"default\/a"/);
      await egress.applyEgress("ct27", { destinations: ["198.51.100.0/24"] });
      const isNew = (now: { routes: readonly string[] } | undefined) =>
        now?.routes[0] === "118 198.51.100.0/24 tunnel";
      await egress.until("the third pod's change", third, isNew);
      await sleep(QUIET_MS);
      assert.equal(isNew(await plane.of(a)), false);
      // When one of them ends, the other one is served.
      await egress.setStatus(b, { ips, phase: "Failed" });
      await egress.until("the change after the conflict", a, isNew);
      for (const pod of [a, third]) await coild.del(pod);
      for (const pod of [a, b, third]) await lab.deletePod(pod);
    },
  );

  await t.step(
    "W31: the last destination of a family goes, and its routes with it",
    async () => {
      await egress.createEgress("w31", WIDE);
      const { pod } = await egress.runServed(coild, "w31", "w31");
      assert.equal((await plane.of(pod))?.routes.length, 4);
      await egress.applyEgress("w31", { destinations: ["::/0"] });
      await egress.until(
        "no IPv4 route",
        pod,
        (now) => now?.routes.every((route) => route.includes("::/0")) === true,
      );
      assert.equal((await plane.of(pod))?.tunnels.length, 1);
      await coild.del(pod);
      await lab.deletePod(pod);
    },
  );

  await t.step(
    "a running pod chooses its gateways when its Egress says so, and leaves connections where they are when it no longer does",
    async () => {
      const destinations = [NET];
      await egress.createEgress("chosen", { destinations });
      const { pod } = await egress.runServed(coild, "chosen", "chosen");
      const select = (gatewaySelection: "Service" | "Direct") =>
        egress.applyEgress("chosen", { destinations, gatewaySelection });
      const awaitChoices = (expected: string) =>
        egress.until(expected, pod, (now) => now?.choices.join() === expected);
      const gateways = (await plane.of(pod))?.senders ?? [];
      assert.ok(gateways.length > 0);
      await awaitChoices("");
      await select("Direct");
      await awaitChoices(`1 of ${gateways.join()}`);
      await select("Service");
      await awaitChoices(`0 of ${gateways.join()}`);
      await select("Direct");
      await awaitChoices(`1 of ${gateways.join()}`);
      await coild.del(pod);
      await lab.deletePod(pod);
    },
  );

  await t.step(
    "an annotation is added to, changed in and removed from a running pod",
    async () => {
      const [one = ""] = await egress.createEgress("one", {
        destinations: [NET],
      });
      const [two = ""] = await egress.createEgress("two", {
        destinations: [NET],
      });
      const { pod } = await egress.runClient(coild, "lively", undefined);
      assert.equal(await plane.of(pod), undefined);
      await egress.annotate(pod, "one");
      await egress.until(
        "the first Egress",
        pod,
        (now) => tunnelTo(one).test(now?.tunnels[0] ?? ""),
      );
      await egress.annotate(pod, "two");
      await egress.until(
        "the second Egress",
        pod,
        (now) => tunnelTo(two).test(now?.tunnels[0] ?? ""),
      );
      await egress.annotate(pod, null);
      await egress.until("no Egress", pod, (now) => now === undefined);
      await eventually(
        "the count",
        async () => await coild.metric("coil_coild_egress_clients") === 0,
      );
      await coild.check(pod);
      await coild.del(pod);
      await lab.deletePod(pod);
    },
  );

  await t.step(
    "an annotation that names what does not exist refuses nothing it cannot know, tells, and recovers",
    async () => {
      const { pod } = await egress.runClient(coild, "hasty", undefined);
      await egress.annotate(pod, "not-yet");
      assert.match(
        await egress.event(pod, "EgressNotFound"),
        /Egress "nat\/not-yet"/,
      );
      await egress.createEgress("not-yet", { destinations: [NET] });
      await egress.until("a tunnel", pod, (now) => now?.tunnels.length === 1);
      await coild.del(pod);
      await lab.deletePod(pod);
    },
  );

  await t.step(
    "a pod that the cache does not have yet: what its predecessor of the name asked for does not count",
    async () => {
      await egress.createEgress("heir", { destinations: [NET] });
      // Its client would hear of no change.
      await egress.untilKnown(coild, "heir");
      const before = await egress.createClient("web-0", undefined);
      await egress.setStatus(before, { ips: ["10.150.0.222"] });
      await coild.knows(before);
      // The runtime knows the next pod of the name, by its own UID.
      const pod = await lab.createSandbox("web-0");
      const ips = await coild.addresses(pod, {
        args: {
          K8S_POD_NAME: "web-0",
          K8S_POD_NAMESPACE: pod.namespace,
          K8S_POD_UID: crypto.randomUUID(),
          IS_CHAINED: "false",
        },
        config: {
          runtimeConfig: {
            "io.kubernetes.cri.pod-annotations": { [ANNOTATION]: "heir" },
          },
        },
      });
      // Changes of the predecessor change nothing.
      await egress.setStatus(before, {
        ips: ["10.150.0.222"],
        phase: "Failed",
      });
      await sleep(QUIET_MS);
      assert.equal((await plane.of(pod))?.routes.length, 2);
      assert.equal(await plane.changes(pod), 1);
      // When the cache has it too, it is followed.
      await lab.deletePod(before);
      const after = await egress.createClient("web-0", "heir");
      await egress.setStatus(after, { ips });
      await egress.applyEgress("heir", { destinations: ["198.51.100.0/24"] });
      await egress.until(
        "the change",
        pod,
        (now) => now?.routes[0] === "118 198.51.100.0/24 tunnel",
      );
      await coild.del(pod);
      await lab.deletePod(after);
    },
  );

  await t.step(
    "a deleted Egress: its destinations are refused until it is there again",
    async () => {
      await egress.createEgress("gone", { destinations: [NET] });
      const { pod } = await egress.runServed(coild, "gone", "gone");
      await egress.deleteEgress("gone");
      await egress.until(
        "refusal",
        pod,
        (now) => now?.routes.join() === `118 ${NET} refused`,
      );
      assert.match(
        await egress.event(pod, "EgressNotFound"),
        /"nat\/gone" no longer exists.*are rejected/,
      );
      await egress.applyEgress("gone", { destinations: [NET] });
      await egress.until(
        "a tunnel again",
        pod,
        (now) => now?.routes.length === 2,
      );
      await coild.del(pod);
      await lab.deletePod(pod);
    },
  );

  await t.step(
    "a deleted Egress whose failure policy is Open: its destinations are released",
    async () => {
      await egress.createEgress("open", {
        destinations: [NET],
        failurePolicy: "Open",
      });
      const { pod } = await egress.runServed(coild, "open", "open");
      assert.deepEqual((await plane.of(pod))?.routes, [`118 ${NET} tunnel`]);
      await egress.deleteEgress("open");
      await egress.until("release", pod, (now) => now?.routes.length === 0);
      assert.match(
        await egress.event(pod, "EgressNotFound"),
        /use other routes/,
      );
      await coild.del(pod);
      await lab.deletePod(pod);
    },
  );

  await t.step(
    "W38: a Service that is recreated, with another address, is followed; until then clients are refused",
    async () => {
      const [old = ""] = await egress.createEgress("moved", {
        destinations: [NET],
      });
      const { pod } = await egress.runServed(coild, "moved", "moved");
      assert.match((await plane.of(pod))?.tunnels[0] ?? "", tunnelTo(old));
      await egress.deleteService("moved");
      await egress.until(
        "refusal",
        pod,
        (now) => now?.routes.join() === `118 ${NET} refused`,
      );
      const [now = ""] = await egress.createService("moved");
      assert.notEqual(now, old);
      await egress.setGateways("moved", [{ address: "10.9.0.1", pod: "gw1" }]);
      await egress.until(
        "the new tunnel",
        pod,
        (client) =>
          tunnelTo(now).test(client?.tunnels[0] ?? "") &&
          client?.routes.length === 2,
      );
      await coild.del(pod);
      await lab.deletePod(pod);
    },
  );

  await t.step(
    "gateways come and go: their clients take packets from those there are, and are refused without",
    async () => {
      await egress.createEgress("gw", { destinations: [NET] }, [
        { address: "10.9.0.1", pod: "g1" },
      ]);
      const { pod } = await egress.runServed(coild, "gw", "gw");
      await egress.setGateways("gw", [
        { address: "10.9.0.1", pod: "g1" },
        { address: "10.9.0.2", pod: "g2", ready: false },
      ]);
      await egress.until(
        "two senders",
        pod,
        (now) => now?.senders.join() === "10.9.0.1,10.9.0.2",
      );
      // The last one that is left ends: it still serves what it has.
      const ending = { ready: false, serving: true, terminating: true };
      await egress.setGateways("gw", [{ address: "10.9.0.1", ...ending }]);
      await egress.until(
        "one sender",
        pod,
        (now) => now?.senders.join() === "10.9.0.1",
      );
      assert.equal((await plane.of(pod))?.routes.length, 2);
      const unavailable =
        'coil_coild_egress_client_conditions{reason="EgressUnavailable"}';
      assert.equal(await coild.metric(unavailable), 0);
      await egress.setGateways("gw", []);
      await egress.until(
        "refusal",
        pod,
        (now) => now?.routes.join() === `118 ${NET} refused`,
      );
      await eventually(
        "the count",
        async () => await coild.metric(unavailable) === 1,
      );
      await egress.event(pod, "EgressUnavailable");
      await egress.setGateways("gw", [{ address: "10.9.0.3", pod: "g3" }]);
      await egress.until(
        "the way again",
        pod,
        (now) => now?.routes.length === 2 && now.senders.join() === "10.9.0.3",
      );
      await egress.event(pod, "EgressAvailable", "Normal");
      assert.equal(await coild.metric(unavailable), 0);
      await coild.del(pod);
      await lab.deletePod(pod);
    },
  );

  await t.step(
    "gateways that are gone for moments, again and again, are not told of each time",
    async () => {
      await egress.createEgress("flap", { destinations: [NET] });
      const { pod } = await egress.runServed(coild, "flap", "flap");
      // One is waited for; on a slow machine others may be as long.
      let most = 1;
      for (let i = 0; i < 3; i++) {
        const begunMs = performance.now();
        await egress.setGateways("flap", []);
        await egress.until("refusal", pod, (now) => now?.routes.length === 1);
        if (i === 1) await egress.event(pod, "EgressUnavailable");
        await egress.setGateways("flap", [{ address: "10.9.0.4" }]);
        await egress.until("the way", pod, (now) => now?.routes.length === 2);
        const tookMs = performance.now() - begunMs;
        if (i !== 1 && tookMs >= EVENT_DELAY_MS) most++;
        if (i === 1) await egress.event(pod, "EgressAvailable", "Normal");
      }
      await sleep(QUIET_MS + 2 * EVENT_DELAY_MS);
      const events = await egress.events(pod);
      assert.deepEqual(events.map(({ reason }) => reason).sort(), [
        ...["EgressAvailable", "EgressUnavailable"],
      ]);
      for (const { reason, count } of events) {
        assert.ok(count <= most, `${reason} ${count} times, not ${most}`);
      }
      await coild.del(pod);
      await lab.deletePod(pod);
    },
  );

  await t.step(
    "changes of one pod and its ADD and DEL follow each other; other pods do not wait",
    async () => {
      await egress.createEgress("slow", { destinations: [NET] });
      const { pod } = await egress.runServed(coild, "slow", "slow");
      const before = await plane.changes(pod);
      const hold = await plane.fault("held");
      await egress.applyEgress("slow", { destinations: ["198.51.100.0/24"] });
      await eventually(
        "the change to begin",
        async () => await plane.changes(pod) === before + 1,
      );
      // A repeated ADD of the attachment waits for it.
      let answered = false;
      const again = awaitedLater(coild.add(pod).then(() => answered = true));
      const plain = await egress.createClient("quick", undefined);
      await coild.add(plain);
      assert.equal(answered, false);
      assert.equal((await ownCalls(egress, pod)).at(-1)?.edge, "begin");
      await hold[Symbol.asyncDispose]();
      await again;
      const own = await ownCalls(egress, pod);
      assert.ok(own.length >= 6, `${own.length} edges`);
      assert.deepEqual(
        own.map(({ edge }) => edge),
        own.map((_, i) => i % 2 === 0 ? "begin" : "end"),
      );
      await coild.del(pod);
      await coild.del(plain);
      await lab.deletePod(pod);
    },
  );

  await t.step(
    "a change that fails is tried again until it works",
    async () => {
      await egress.createEgress("retry", { destinations: [NET] });
      const { pod } = await egress.runServed(coild, "retry", "retry");
      const attempts = async (result: string) =>
        await coild.metric(
          `coil_coild_egress_updates_total{result="${result}"}`,
        ) ?? 0;
      let worked: number;
      {
        await using _fault = await plane.fault("broken");
        await egress.applyEgress("retry", { destinations: ["::/0"] });
        await eventually(
          "two attempts that failed",
          async () => await attempts("error") >= 2,
        );
        worked = await attempts("ok");
      }
      await eventually(
        "the attempt that works",
        async () => await attempts("ok") > worked,
      );
      await eventually("no further attempt", async () => {
        const last = await plane.changes(pod);
        await sleep(QUIET_MS);
        return await plane.changes(pod) === last;
      });
      await coild.del(pod);
      await lab.deletePod(pod);
    },
  );

  await t.step(
    "an annotation on a kernel without tunnels: the pod runs on, is refused the destinations, and told",
    async () => {
      await egress.createEgress("nofou", { destinations: [NET] });
      const { pod } = await egress.runClient(coild, "nofou", undefined);
      await using _fault = await plane.fault("unsupported");
      await egress.annotate(pod, "nofou");
      await egress.until("refusal", pod, (now) =>
        now?.tunnels.length === 0 &&
        now.routes.join() === `118 ${NET} refused`);
      assert.match(
        await egress.event(pod, "EgressUnsupported"),
        /^Cannot make pod "[^"]*nofou" a client of Egress "[^"]*nofou": Cannot use Foo over UDP: .*modules/,
      );
      // Another attempt that comes to the same is not told.
      await egress.applyEgress("nofou", { destinations: ["198.51.100.0/24"] });
      await egress.until(
        "the new refusal",
        pod,
        (now) => now?.routes.join() === "118 198.51.100.0/24 refused",
      );
      await sleep(QUIET_MS + 2 * EVENT_DELAY_MS);
      const events = await egress.events(pod);
      assert.deepEqual(
        events.map(({ reason, count }) => `${reason} ${count}`),
        ["EgressUnsupported 1"],
      );
      await coild.del(pod);
      await lab.deletePod(pod);
    },
  );
  await coild[Symbol.asyncDispose]();
});

Deno.test("coild takes its egress clients up again at a start", async (t) => {
  await using egress = await EgressLab.start("coildrestart");
  const { lab, plane } = egress;
  const first = await egress.coild();
  await egress.createEgress("edited", { destinations: [NET] });
  await egress.createEgress("deleted", { destinations: ["198.51.100.0/24"] });
  await egress.createEgress("same", { destinations: ["203.0.113.0/24"] });
  const { pod: edited } = await egress.runServed(first, "edited", "edited");
  const { pod: left } = await egress.runServed(first, "left", "edited");
  const { pod: joined } = await egress.runClient(first, "joined", undefined);
  const { pod: deleted } = await egress.runServed(
    first,
    "deleted",
    "deleted,same",
  );
  const { pod: plain } = await egress.runClient(first, "plain", undefined);
  // Its runtime is between ADD and the pod's status.
  const early = await egress.createClient("early", "same");
  const earlyIps = await first.addresses(early);
  await first.process.kill9();
  await egress.applyEgress("edited", { destinations: ["::/0"] });
  await egress.deleteEgress("deleted");
  await egress.annotate(left, null);
  await egress.annotate(joined, "same");
  await using coild = await egress.coild(["--enable-originating-only=true"]);

  await t.step("what changed in between is made so", async () => {
    await egress.until(
      "the edit",
      edited,
      (now) => now?.routes[0] === "118 ::/0 tunnel",
    );
    await egress.until("the end", left, (now) => now === undefined);
    await egress.until(
      "the beginning",
      joined,
      (now) => now?.routes[0] === "118 203.0.113.0/24 tunnel",
    );
  });

  await t.step(
    "an Egress that was deleted in between is still refused, others work",
    async () => {
      await egress.event(deleted, "EgressNotFound");
      await egress.until("both", deleted, (now) =>
        now?.routes.join() === [
          "118 198.51.100.0/24 refused",
          "118 203.0.113.0/24 tunnel",
          "118 203.0.113.0/24 refused",
        ].join());
    },
  );

  await t.step(
    "W32: the flag of originating-only reaches pods that run",
    async () => {
      for (const pod of [edited, joined, deleted]) {
        await egress.until(
          "the flag",
          pod,
          (now) => now?.originatingOnly === true,
        );
      }
    },
  );

  await t.step("a pod whose status comes later is taken up then", async () => {
    await egress.setStatus(early, { ips: earlyIps });
    await egress.until(
      "the flag",
      early,
      (now) => now?.originatingOnly === true,
    );
  });

  await t.step("who has nothing to do with egress is left alone", async () => {
    assert.equal(await plane.changes(plain), 0);
    for (const pod of [edited, left, joined, deleted, plain, early]) {
      await coild.check(pod);
      await coild.del(pod);
      await lab.deletePod(pod);
    }
  });
});

async function ownCalls(
  { plane }: EgressLab,
  { netns }: { readonly netns: string },
) {
  const { ino } = await Deno.stat(`/run/netns/${netns}`);
  return (await plane.calls()).filter(({ inode }) => inode === `${ino}`);
}
