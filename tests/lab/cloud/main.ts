// One process that is EC2 and the metadata service of its instances. It ends with its stdin.
//
//   deno run -A tests/lab/cloud/main.ts CONFIG_FILE CONTROL_SOCKET
import { Account } from "./account.ts";
import { CallLog } from "./calls.ts";
import type { CloudConfig, FabricConfig } from "./config.ts";
import type { CommandMessage, Commands, Endpoints } from "./control.ts";
import { Ec2Endpoint } from "./ec2_server.ts";
import { Fabric, IMDS_ADDRESS } from "./fabric.ts";
import { Faults } from "./faults.ts";
import { HttpServer } from "./http.ts";
import { ImdsEndpoint } from "./imds_server.ts";

const [configFile, controlPath] = Deno.args;
if (configFile === undefined || controlPath === undefined) Deno.exit(2);
// The control socket is its owner's alone.
Deno.umask(0o177);
const config = JSON.parse(await Deno.readTextFile(configFile)) as CloudConfig;
await using servers = new AsyncDisposableStack();
const account = servers.use(new Account(config));
const faults = new Faults();
const calls = new CallLog();
let { credentials } = config;

const ec2 = new Ec2Endpoint({
  account,
  faults,
  calls,
  find: (id) => credentials.find(({ accessKeyId }) => accessKeyId === id),
});
const imds = new ImdsEndpoint({
  account,
  faults,
  calls,
  credentials: () => credentials.find(({ role }) => role !== undefined),
});

const commands: Commands = {
  fault: (fault) => faults.add(fault),
  clearFaults: () => faults.clear(),
  setPace: async (pace) => {
    account.pace = { ...account.pace, ...pace };
    if (pace.plugMs === 0) await fabric?.apply(account.enis());
  },
  setVpc: (vpc) => void (account.vpc = { ...account.vpc, ...vpc }),
  setCredentials: (others) => void (credentials = others),
  forgetTokens: () => imds.forgetTokens(),
  calls: (from) => calls.from(from),
  byHand: async (form) => {
    const answer = ec2.byHand(form);
    await fabric?.settled();
    return answer;
  },
  drops: async () => await fabric?.drops() ?? {},
};

async function obey({ command, argument }: CommandMessage): Promise<unknown> {
  const run = commands[command] as (argument: unknown) => unknown;
  return await run(argument) ?? null;
}

/** Keeps the fabric as the account is. What it cannot do ends the process. */
async function openFabric(config: FabricConfig): Promise<Fabric> {
  const fabric = await Fabric.open(config);
  await fabric.apply(account.enis());
  account.watch((enis) => {
    const { plugMs } = account.pace;
    if (plugMs === 0) void fabric.apply(enis);
    else setTimeout(() => fabric.apply(account.enis()), plugMs);
  });
  return fabric;
}

/** What every instance can reach under the addresses that it knows. */
async function listenInFabric(
  { ec2Address }: FabricConfig,
): Promise<Endpoints> {
  const port = 80;
  servers.use(
    await HttpServer.listen(
      { host: ec2Address, port },
      async (request) => {
        const answer = ec2.answer(request);
        await fabric?.settled();
        return answer;
      },
    ),
  );
  servers.use(
    await HttpServer.listen({ host: IMDS_ADDRESS, port }, (request) => {
      const instance = imds.instanceAt(request.from);
      return instance === undefined
        ? { status: 404, type: "text/plain", body: "" }
        : imds.answer(request, instance);
    }),
  );
  const imdsUrl = `http://${IMDS_ADDRESS}`;
  const ids = [...account.instances.keys()];
  const byInstance = Object.fromEntries(ids.map((id) => [id, imdsUrl]));
  return { ec2: `http://${ec2Address}`, imds: byInstance };
}

const LOOPBACK = { host: "127.0.0.1", port: 0 };

async function listenOnLoopback(): Promise<Endpoints> {
  const atEc2 = servers.use(
    await HttpServer.listen(LOOPBACK, (request) => ec2.answer(request)),
  );
  const byInstance: Record<string, string> = {};
  for (const instance of account.instances.values()) {
    const server = servers.use(
      await HttpServer.listen(
        LOOPBACK,
        (request) => imds.answer(request, instance),
      ),
    );
    byInstance[instance.id] = `http://127.0.0.1:${server.port}`;
  }
  return { ec2: `http://127.0.0.1:${atEc2.port}`, imds: byInstance };
}

const fabric = config.fabric && await openFabric(config.fabric);
const endpoints = config.fabric === undefined
  ? await listenOnLoopback()
  : await listenInFabric(config.fabric);
servers.use(
  await HttpServer.listen({ path: controlPath }, async ({ body }) => ({
    status: 200,
    type: "application/json",
    body: JSON.stringify(await obey(JSON.parse(body))),
  })),
);
const line = `${JSON.stringify(endpoints)}\n`;
await Deno.stdout.write(new TextEncoder().encode(line));
// Until the program that started it closes the pipe, or ends.
for await (const _ of Deno.stdin.readable);
await servers.disposeAsync();
// Answers that were to come later hold it otherwise.
Deno.exit(0);
