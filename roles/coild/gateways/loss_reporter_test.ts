import assert from "node:assert/strict";
import type { AnnounceResult } from "../../../lib/announce/mod.ts";
import { TaskGroup } from "../../../lib/async/mod.ts";
import { FakeClock, settle } from "../../../lib/async/testing.ts";
import { Address } from "../../../lib/inet/mod.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import { LossReporter } from "./loss_reporter.ts";

const [A, B, C, D] = ["10.2.0.1", "10.2.0.2", "10.2.0.3", "10.2.0.4"]
  .map(Address.parse) as [Address, Address, Address, Address];

/** A node of two Egresses, "internet/nat" with all three gateways and "other/nat" with the last one. */
function reporterLab() {
  const clock = new FakeClock();
  const group = new TaskGroup();
  const answering = new Set([A, B, C].map(String));
  /** They answer, and get no new connections. */
  const held = new Set<string>();
  const losses = new Map<Address, number>();
  const suspects = new Set<string>();
  const reports: string[] = [];
  const counted: string[] = [];
  let result: AnnounceResult = "accepted";
  let groups = [
    { name: "internet/nat", gateways: [A, B, C] },
    { name: "other/nat", gateways: [C] },
  ];
  const reporter = new LossReporter({
    client: {
      report: (target, { losses, suspects }) => {
        const lost = losses.map(({ gateway, seconds, ended }) =>
          `${gateway} ${seconds} s ago, ${ended} ended`
        ).concat(suspects.map((gateway) => `${gateway} nearly`));
        const { egress: { namespace, name }, address } = target;
        reports.push(
          `${namespace}/${name} to ${address}: ${lost.join("; ") || "none"}`,
        );
        return Promise.resolve({ ...target, result });
      },
    },
    groups: () => groups,
    answering: () => [answering, held],
    losses: () =>
      [...losses].map(([gateway, sinceMs]) => ({
        gateway,
        sinceMs,
        ended: 7,
      })),
    suspects: () => suspects,
    metrics: { reported: (result) => void counted.push(result) },
    clock,
    random: () => 0.5,
  });
  group.run("reporter", (signal) => reporter.run(signal));
  return {
    clock,
    counted,
    answer: (next: AnnounceResult) => void (result = next),
    lose(gateway: Address): void {
      answering.delete(gateway.toString());
      losses.set(gateway, clock.nowMs());
      reporter.trigger();
    },
    find(gateway: Address): void {
      answering.add(gateway.toString());
      losses.delete(gateway);
      reporter.trigger();
    },
    /** Nothing says so. */
    hold(gateway: Address): void {
      answering.delete(gateway.toString());
      losses.delete(gateway);
      held.add(gateway.toString());
    },
    /** Likewise. */
    resume(gateway: Address): void {
      answering.add(gateway.toString());
    },
    suspect(...gateways: readonly Address[]): void {
      suspects.clear();
      for (const each of gateways) suspects.add(each.toString());
      reporter.trigger();
    },
    /** "internet/nat" has one more gateway. */
    join(gateway: Address): void {
      groups = [{ name: "internet/nat", gateways: [A, B, C, gateway] }];
      reporter.trigger();
    },
    leave: () => void (groups = []),
    /** What was reported within the time. */
    async within(seconds: number): Promise<readonly string[]> {
      reports.length = 0;
      await settle();
      for (let i = 0; i < seconds; i++) {
        await clock.advance(1_000);
        await settle();
      }
      return [...reports];
    },
    [Symbol.asyncDispose]: () => group[Symbol.asyncDispose](),
  };
}

Deno.test("LossReporter reports a loss after some seconds, to a gateway of the Egress that answers", async () => {
  await using lab = reporterLab();
  assert.deepEqual(await lab.within(300), []);
  lab.lose(A);
  assert.deepEqual(await lab.within(2), []);
  assert.deepEqual(await lab.within(1), [
    `internet/nat to ${C}: ${A} 3 s ago, 7 ended`,
  ]);
});

Deno.test("LossReporter repeats once a minute what is lost, and says once that nothing is", async () => {
  await using lab = reporterLab();
  lab.lose(A);
  const found = await lab.within(3 + 2 * 63);
  assert.deepEqual(
    found,
    [3, 66, 129].map((seconds) =>
      `internet/nat to ${C}: ${A} ${seconds} s ago, 7 ended`
    ),
  );
  lab.find(A);
  assert.deepEqual(await lab.within(200), [`internet/nat to ${C}: none`]);
});

Deno.test("LossReporter stays with the gateway that it reported to, until that is lost", async () => {
  await using lab = reporterLab();
  lab.lose(C);
  assert.deepEqual(await lab.within(3), [
    `internet/nat to ${B}: ${C} 3 s ago, 7 ended`,
  ]);
  lab.find(C);
  lab.lose(A);
  assert.deepEqual(await lab.within(3), [
    `internet/nat to ${B}: ${A} 3 s ago, 7 ended`,
  ]);
  lab.lose(B);
  assert.deepEqual(await lab.within(3), [
    `internet/nat to ${C}: ${A} 6 s ago, 7 ended; ${B} 3 s ago, 7 ended`,
  ]);
});

Deno.test("LossReporter reports a gateway of which packets are lost to another one, again and again, and the end of it", async () => {
  await using lab = reporterLab();
  lab.suspect(C);
  // The other Egress has that one alone.
  const report = `internet/nat to ${B}: ${C} nearly`;
  assert.deepEqual(await lab.within(66), [report, report]);
  lab.lose(A);
  assert.deepEqual(await lab.within(3), [
    `internet/nat to ${B}: ${A} 3 s ago, 7 ended; ${C} nearly`,
  ]);
  lab.find(A);
  lab.suspect();
  assert.deepEqual(await lab.within(200), [`internet/nat to ${B}: none`]);
});

Deno.test("LossReporter reports a loss to a gateway of which packets are lost where no other answers", async () => {
  await using lab = reporterLab();
  lab.suspect(C);
  lab.lose(A);
  lab.lose(B);
  assert.deepEqual(await lab.within(3), [
    `internet/nat to ${C}: ${A} 3 s ago, 7 ended; ${B} 3 s ago, 7 ended`,
  ]);
});

Deno.test("LossReporter reports that packets to all gateways are lost, but to none about itself", async () => {
  await using lab = reporterLab();
  lab.suspect(A, B, C);
  assert.deepEqual(await lab.within(3), [
    `internet/nat to ${B}: ${A} nearly; ${C} nearly`,
  ]);
});

Deno.test("LossReporter reports a loss to a gateway that gets no new connections where no other answers", async () => {
  await using lab = reporterLab();
  lab.hold(A);
  lab.hold(C);
  lab.lose(B);
  const report = (to: Address, seconds: number) =>
    `internet/nat to ${to}: ${B} ${seconds} s ago, 7 ended`;
  assert.deepEqual(await lab.within(3), [report(C, 3)]);
  lab.find(A);
  assert.deepEqual(await lab.within(3), [report(A, 6)]);
});

Deno.test("LossReporter reports a loss when a gateway of the Egress answers that can take it", async () => {
  await using lab = reporterLab();
  for (const each of [A, B, C]) lab.lose(each);
  assert.deepEqual(await lab.within(300), []);
  lab.hold(C);
  const [report, ...more] = await lab.within(63);
  assert.match(report ?? "", new RegExp(`^internet/nat to ${C}: ${A} \\d+ s`));
  assert.deepEqual(more, []);
});

Deno.test("LossReporter reports a gateway of which packets are lost when another one takes new connections", async () => {
  await using lab = reporterLab();
  for (const each of [A, C]) lab.hold(each);
  lab.suspect(B);
  assert.deepEqual(await lab.within(300), []);
  lab.resume(A);
  assert.deepEqual(await lab.within(63), [`internet/nat to ${A}: ${B} nearly`]);
});

Deno.test("LossReporter rests while no client has a lost gateway, and reports it when one does", async () => {
  await using lab = reporterLab();
  lab.lose(D);
  assert.deepEqual(await lab.within(3), []);
  assert.equal(lab.clock.pending, 0);
  lab.join(D);
  assert.deepEqual(await lab.within(3), [
    `internet/nat to ${B}: ${D} 6 s ago, 7 ended`,
  ]);
});

Deno.test("LossReporter counts its reports, and warns once of an Egress until one is taken", async () => {
  await using lab = reporterLab();
  const lines = loggedLines();
  lab.answer("no-token");
  lab.lose(A);
  await lab.within(3 + 2 * 63);
  lab.answer("accepted");
  await lab.within(63);
  lab.answer("failed");
  await lab.within(63);
  assert.deepEqual(lab.counted, [
    ...["no-token", "no-token", "no-token", "accepted", "failed"],
  ]);
  const warnings = lines.filter((line) => line.includes("warn"))
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    warnings.map(({ egress, result }) => `${egress} ${result}`),
    ["internet/nat no-token", "internet/nat failed"],
  );
});

Deno.test("LossReporter forgets an Egress that has no client here", async () => {
  await using lab = reporterLab();
  lab.lose(A);
  assert.equal((await lab.within(3)).length, 1);
  lab.leave();
  assert.deepEqual(await lab.within(200), []);
});
