import assert from "node:assert/strict";
import { FakeClock } from "../../../lib/async/testing.ts";
import { Address } from "../../../lib/inet/mod.ts";
import { loggedLines } from "../../../lib/telemetry/testing.ts";
import { Losses } from "./losses.ts";

const A = Address.parse("10.64.0.9");
const B = Address.parse("10.64.0.10");

function lossesLab() {
  const clock = new FakeClock();
  const lost = new Set<string>();
  const counted: string[] = [];
  const losses = new Losses({
    metrics: {
      lost: (ms) => void counted.push(`lost ${ms}`),
      switched: (ms) => void counted.push(`switched ${ms}`),
      ended: ({ aborted, forgotten }) =>
        void counted.push(`ended ${aborted} ${forgotten}`),
    },
    lost: () => lost,
    clock,
  });
  const lose = (gateway: Address) => {
    lost.add(gateway.toString());
    losses.add({ gateway, silentMs: 700 });
  };
  const recall = (gateway: Address) => {
    lost.add(gateway.toString());
    losses.add({ gateway });
  };
  const found = () =>
    losses.list.map(({ gateway, sinceMs, ended }) =>
      `${gateway} at ${sinceMs}: ${ended}`
    );
  return { clock, counted, losses, lost, lose, recall, found };
}

Deno.test("Losses counts connections of each loss that programs saw aborted, and the time that a client takes", async () => {
  const { clock, counted, losses, lose, found } = lossesLab();
  lose(A);
  await clock.advance(40);
  losses.ended({ aborted: 1, forgotten: 3 }, [A]);
  losses.left([A]);
  lose(B);
  await clock.advance(10);
  losses.ended({ aborted: 2, forgotten: 2 }, [A]);
  losses.left([A, B]);
  assert.deepEqual(counted, [
    ...["lost 700", "ended 1 3", "switched 40"],
    ...["lost 700", "ended 2 2", "switched 50", "switched 10"],
  ]);
  assert.deepEqual(found(), [`${A} at 0: 3`, `${B} at 40: 0`]);
});

Deno.test("Losses says once that the kernel cannot end connections, and reports none as ended", () => {
  const { counted, losses, lose, found } = lossesLab();
  lose(A);
  const lines = loggedLines();
  for (let i = 0; i < 2; i++) {
    losses.ended({ aborted: undefined, forgotten: 2 }, [A]);
  }
  assert.deepEqual(found(), [`${A} at 0: 0`]);
  assert.deepEqual(counted.slice(1), Array(2).fill("ended undefined 2"));
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? "", /warn.*CONFIG_INET_DIAG_DESTROY/);
});

Deno.test("Losses has a gateway until it answers again, and begins at 0 with its next loss", async () => {
  const { clock, counted, losses, lost, lose, found } = lossesLab();
  lose(A);
  losses.left([A]);
  lost.clear();
  assert.deepEqual(found(), []);
  await clock.advance(100);
  lose(A);
  assert.deepEqual(found(), [`${A} at 100: 0`]);
  counted.length = 0;
  // A gateway that has gone before any probe of it was missed.
  losses.ended({ aborted: 1, forgotten: 1 }, [B]);
  losses.left([B]);
  assert.deepEqual(counted, ["ended 1 1"]);
  assert.deepEqual(found(), [`${A} at 100: 0`]);
});

Deno.test("Losses has a gateway that was lost before the start, without times that are not known", async () => {
  const { clock, counted, losses, lost, lose, recall, found } = lossesLab();
  const lines = loggedLines();
  await clock.advance(10);
  recall(A);
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? "", /warn.*Lost an egress gateway.*10\.64\.0\.9/);
  await clock.advance(40);
  losses.ended({ aborted: 1, forgotten: 3 }, [A]);
  losses.left([A]);
  assert.deepEqual(counted.splice(0), ["ended 1 3"]);
  assert.deepEqual(found(), [`${A} at 10: 1`]);
  // It is lost again.
  lost.clear();
  lose(A);
  await clock.advance(20);
  losses.left([A]);
  assert.deepEqual(counted, ["lost 700", "switched 20"]);
});
