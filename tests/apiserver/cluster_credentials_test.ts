// What coild and coil-controller know the API server by, and are known to it
// by, changes while they run: its certificate, its authority, their tokens.
import assert from "node:assert/strict";
import { createPrivateKey, sign } from "node:crypto";
import * as path from "node:path";
import { createAuthority, sharedPki } from "../lab/pki.ts";
import { eventually, type LabProcess, sleep } from "../lab/mod.ts";
import { CallError, type Coild, CoildLab, type Sandbox } from "./coild_lab.ts";

const INTERVAL_MS = 200;
/** Counted from when the server answers: less than the minute after which files are read again for no reason. */
const SERVED_MS = 45_000;
const COILD = "coild_node1";
const CONTROLLER = "coil-controller_any";
/** A new pod wants a block of its own: somebody asks, somebody answers. */
const BLOCK_SIZE_BITS = 0;

/** Replaces a file that a daemon has mounted, as kubelet does: at once. */
async function replace(
  lab: CoildLab,
  account: string,
  files: { readonly token?: string; readonly "ca.crt"?: string },
): Promise<void> {
  const accounts = path.join(lab.plane.runDir, "service-accounts");
  const directory = path.join(accounts, `kube-system_${account}`);
  for (const [name, text] of Object.entries(files)) {
    const file = path.join(directory, name);
    await Deno.writeTextFile(`${file}.new`, text);
    await Deno.rename(`${file}.new`, file);
  }
}

/** A pod comes and goes: coild and the controller both have to reach the API server for that. */
async function servesPods(
  lab: CoildLab,
  coild: Coild,
  name: string,
): Promise<void> {
  const deadline = performance.now() + SERVED_MS;
  const pod = await lab.createPod(name, { node: coild.node });
  const isServed = await untilServed(coild, pod, () => {
    return performance.now() < deadline;
  });
  assert.ok(isServed, `no network for pod "${name}" within ${SERVED_MS} ms`);
  await coild.check(pod);
}

/** Adds a pod again and again, as a runtime does; false when it is not to go on. */
async function untilServed(
  coild: Coild,
  pod: Sandbox,
  goesOn: () => boolean | Promise<boolean>,
): Promise<boolean> {
  for (;;) {
    try {
      return (await coild.addresses(pod)).length === 1;
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      if (!await goesOn()) return false;
    }
    await sleep(INTERVAL_MS);
  }
}

/** Both daemons still are the processes that they were. */
function assertRunning(...processes: readonly LabProcess[]): void {
  for (const { isRunning, logFile } of processes) {
    assert.ok(isRunning, `${logFile} has ended`);
  }
}

Deno.test("the API server's certificate is rotated: coild and the controller go on", async (t) => {
  await using lab = await CoildLab.start({ name: "rotatedca", nodes: 2 });
  const { plane } = lab;
  await lab.createPool("default", [{ ipv4: "10.126.0.0/24" }], BLOCK_SIZE_BITS);
  await using controller = await lab.startController();
  const args = ["--low-water=0", "--block-request-timeout=3s"];
  await using coild = await lab.startCoild(lab.node(1), args);
  await using forgotten = await lab.startCoild(lab.node(2), args);
  await servesPods(lab, coild, "before");

  await t.step("another certificate of the same authority", async () => {
    await plane.renewServingCertificate();
    await servesPods(lab, coild, "renewed");
    assertRunning(coild.process, controller, forgotten.process);
  });

  const pki = await sharedPki();
  const next = await createAuthority(path.join(plane.runDir, "next-ca"));
  const [oldCa, newCa] = await Promise.all(
    [pki, next].map(({ caCert }) => Deno.readTextFile(caCert)),
  ) as [string, string];

  await t.step(
    "another authority, which the files name beside the old one",
    async () => {
      for (const account of [COILD, CONTROLLER]) {
        await replace(lab, account, { "ca.crt": `${oldCa}${newCa}` });
      }
      plane.trust(oldCa, newCa);
      await plane.renewServingCertificate(next);
      await servesPods(lab, coild, "bundle");
      assertRunning(coild.process, controller);
    },
  );

  await t.step("the old one is taken out of the files", async () => {
    for (const account of [COILD, CONTROLLER]) {
      await replace(lab, account, { "ca.crt": newCa });
    }
    await plane.renewServingCertificate(next);
    await servesPods(lab, coild, "new");
    assertRunning(coild.process, controller);
  });

  await t.step(
    "whose file was forgotten goes on with its pods, says why it gets no block, and heals when told",
    async () => {
      const pod = await lab.createPod("forgotten", { node: lab.node(2) });
      await forgotten.refused(forgotten.add(pod));
      await eventually(
        "the authority that is not known, in the log",
        async () => /UnknownIssuer/.test(await forgotten.process.logs()),
      );
      assertRunning(forgotten.process);
      await replace(lab, "coild_node2", { "ca.crt": newCa });
      await servesPods(lab, forgotten, "remembered");
    },
  );
});

/** Seconds that the API server still takes a token after its end. */
const LEEWAY_SECONDS = 60;
/** Until a token made by {@linkcode shortLived} ends; a success is remembered for ten more. Together less than a minute: then files are read again for no reason. */
const LIFE_SECONDS = 40;
/** How often tokens are made until a busy machine has served a pod within their life. */
const MAX_BRIEF = 5;

/** The same token with an end that is near: the API server itself gives none that lives less than ten minutes. */
async function shortLived(token: string): Promise<string> {
  const [header = "", body = ""] = token.split(".");
  const claims = JSON.parse(
    atob(body.replaceAll("-", "+").replaceAll("_", "/")),
  );
  const now = Math.floor(Date.now() / 1000);
  const exp = now - LEEWAY_SECONDS + LIFE_SECONDS;
  const payload = JSON.stringify({
    ...claims,
    iat: exp - 600,
    nbf: exp - 600,
    exp,
  });
  const signed = `${header}.${toBase64Url(new TextEncoder().encode(payload))}`;
  const { serviceAccountKey } = await sharedPki();
  const key = createPrivateKey(await Deno.readTextFile(serviceAccountKey));
  const signature = sign("sha256", new TextEncoder().encode(signed), {
    key,
    dsaEncoding: "ieee-p1363",
  });
  return `${signed}.${toBase64Url(signature)}`;
}

function toBase64Url(bytes: Uint8Array): string {
  return bytes.toBase64({ alphabet: "base64url", omitPadding: true });
}

/** How the API server answers anyone who has this token. */
async function statusOf(lab: CoildLab, token: string): Promise<number> {
  using client = Deno.createHttpClient({ caCerts: [lab.plane.ca] });
  const response = await fetch(
    `${lab.plane.url}/apis/coil.cybozu.com/v2/addresspools`,
    {
      client,
      headers: { authorization: `Bearer ${token}` },
    },
  );
  await response.body?.cancel();
  return response.status;
}

/** Has the daemons read their files: the server that they know of is away for a moment. */
async function interrupt(lab: CoildLab): Promise<void> {
  await lab.plane.killApiServer();
  await lab.plane.startApiServer();
}

/** Who was answered 401 since then, by what they call themselves. */
async function unauthorized(
  lab: CoildLab,
  since: Date,
): Promise<ReadonlySet<string>> {
  const requests = await lab.plane.auditRequests({ since });
  return new Set(
    requests.filter(({ code }) => code === 401)
      .map(({ userAgent }) => userAgent.split("/")[0] ?? ""),
  );
}

Deno.test("tokens expire and are renewed: coild and the controller read their files again at status 401", async (t) => {
  await using lab = await CoildLab.start({
    name: "expired",
    audit: "metadata",
  });
  const { plane } = lab;
  await lab.createPool("default", [{ ipv4: "10.126.0.0/24" }], BLOCK_SIZE_BITS);
  const renew = {
    [COILD]: () =>
      plane.serviceAccountToken({
        namespace: "kube-system",
        name: "coild",
        node: "node1",
      }),
    [CONTROLLER]: () =>
      plane.serviceAccountToken({
        namespace: "kube-system",
        name: "coil-controller",
      }),
  };
  await using controller = await lab.startController();
  await using coild = await lab.startCoild(lab.node(), [
    ...["--low-water=0", "--block-request-timeout=3s"],
  ]);
  await servesPods(lab, coild, "before");
  const brief: string[] = [];
  let since = new Date();

  /** Gives both daemons tokens that end soon; whether they have served a pod before the end. */
  async function serveBriefly(pod: Sandbox): Promise<boolean> {
    brief.length = 0;
    since = new Date();
    for (const account of [COILD, CONTROLLER] as const) {
      const token = await shortLived(await renew[account]());
      brief.push(token);
      await replace(lab, account, { token });
    }
    await interrupt(lab);
    return await untilServed(coild, pod, async () => {
      const codes = await Promise.all(brief.map((t) => statusOf(lab, t)));
      return !codes.includes(401);
    });
  }

  await t.step("they take tokens that end soon, and work", async () => {
    let isServed = false;
    for (let n = 1; n <= MAX_BRIEF && !isServed; n++) {
      isServed = await serveBriefly(await lab.createPod(`brief${n}`));
    }
    assert.ok(isServed, `no pod served by ${MAX_BRIEF} pairs of tokens`);
    // The controller's is renewed in time, coild's is forgotten.
    await replace(lab, CONTROLLER, { token: await renew[CONTROLLER]() });
  });

  await t.step(
    "the API server refuses the tokens when they have ended",
    async () => {
      for (const token of brief) {
        await eventually(
          "status 401",
          async () => await statusOf(lab, token) === 401,
          { intervalMs: INTERVAL_MS },
        );
      }
    },
  );

  await t.step(
    "coild, whose file has the old one, says so to pods that want a block, and goes on",
    async () => {
      const pod = await lab.createPod("refused");
      await eventually("coild to be refused", async () => {
        const error = await coild.refused(coild.add(pod));
        return /Unauthorized/.test(error.details);
      }, { intervalMs: INTERVAL_MS });
      assertRunning(coild.process);
      assert.ok((await unauthorized(lab, since)).has("coild"));
    },
  );

  await t.step("a pod is served as soon as the file is renewed", async () => {
    await replace(lab, COILD, { token: await renew[COILD]() });
    await servesPods(lab, coild, "renewed");
    assertRunning(coild.process, controller);
    assert.ok((await unauthorized(lab, since)).has("coil-controller"));
  });
});
