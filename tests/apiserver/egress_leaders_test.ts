import { eventually } from "../lab/mod.ts";
import { ClientsController } from "./clients_controller.ts";
import {
  assertClients,
  CLIENT,
  EGRESS_KEY,
  EgressLab,
  untilReady,
} from "./egress_gateway_lab.ts";

let lab: EgressLab;

Deno.test.beforeAll(async () => {
  lab = await EgressLab.start("egressleaders");
});

Deno.test.afterAll(async () => {
  await lab[Symbol.asyncDispose]();
});

Deno.test("two leaders at once write each client once", async () => {
  await using _pods = new AsyncDisposableStack();
  _pods.defer(() => lab.removePods());
  await using _first = await lab.controller.use(EGRESS_KEY);
  const rival = await ClientsController.on(lab.plane, { hasLease: false });
  await using _second = await rival.use(EGRESS_KEY);
  const names = Array.from({ length: 150 }, (_, n) => `pod-${n}`);
  await Promise.all(
    names.map((name) => lab.createPod(name, { annotations: CLIENT })),
  );
  await Promise.all(
    names.slice(0, 75).map((name) => lab.deletePod(name)),
  );
  const wanted = names.slice(75).sort().join();
  await eventually("the rest, each once", async () => {
    return (await lab.clientNames()).join() === wanted;
  });
});

Deno.test("with two leaders at once a gateway ends with the clients that stay", async () => {
  await using _pods = new AsyncDisposableStack();
  _pods.defer(() => lab.removePods());
  await using gateway = await lab.startGateway();
  const rival = await ClientsController.on(lab.plane, { hasLease: false });
  await using _second = await rival.use(EGRESS_KEY);
  await untilReady(gateway);
  const numbers = Array.from({ length: 250 }, (_, n) => n);
  await Promise.all(
    numbers.map((n) =>
      lab.runPod(`pod-${n}`, [`10.1.5.${n}`], { annotations: CLIENT })
    ),
  );
  const { kernel } = gateway;
  await assertClients(kernel, numbers.map((n) => `10.1.5.${n}`));
  // So few are left that slices are put together.
  const leave = numbers.filter((n) => n % 4 !== 0);
  await Promise.all(leave.map((n) => lab.deletePod(`pod-${n}`)));
  const stay = numbers.filter((n) => n % 4 === 0).map((n) => `10.1.5.${n}`);
  await assertClients(kernel, stay);
  await eventually("fewer slices", async () => {
    const all = await lab.slices();
    return all.filter(({ clients = [] }) => clients.length > 0).length <= 2;
  });
  await assertClients(kernel, stay);
});
