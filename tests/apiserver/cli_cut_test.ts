// Commands that read or plan, with an API server that goes away amid the answer to each of their requests.
import assert from "node:assert/strict";
import { createServer, type Server } from "node:https";
import { coil } from "../../roles/cli/testing.ts";
import { type ControlPlane, startCoilPlane } from "../lab/mod.ts";
import { kubeconfigText } from "../lab/kubeconfig.ts";
import { issueCertificate, sharedPki } from "../lab/pki.ts";
import { populate } from "./ipam_books.ts";

const COMMANDS = [
  "status",
  "explain 10.2.0.9",
  "explain apps/web-1 --to=203.0.113.7",
  "ipam show pools",
  "ipam show blocks",
  "ipam show addresses",
  "ipam map default",
  "ipam check --repair --dry-run",
  "egress show clients",
  "egress show gateways",
  "egress show sources",
];

interface Budget {
  /** Requests that are still answered. */
  left: number;
}

/** The API server, until it has answered some requests; from then on each connection ends amid its answer. */
class Passage implements AsyncDisposable {
  readonly #server: Server;
  readonly #client: Deno.HttpClient;
  /** Of the command that runs: requests of one before may still be on their way. */
  budget: Budget = { left: Infinity };

  private constructor(
    plane: ControlPlane,
    identity: { readonly cert: string; readonly key: string },
  ) {
    this.#client = Deno.createHttpClient({ caCerts: [plane.ca] });
    this.#server = createServer(identity, async (request, response) => {
      const { budget } = this;
      const answer = await fetch(plane.url + request.url, {
        method: request.method ?? "GET",
        headers: { authorization: request.headers.authorization ?? "" },
        client: this.#client,
      });
      const body = await answer.bytes();
      const isWhole = --budget.left >= 0;
      response.writeHead(answer.status, { "content-length": body.length });
      if (isWhole) response.end(body);
      else {
        response.write(body.subarray(0, body.length / 2));
        response.socket?.destroy();
      }
    });
    this.#server.keepAliveTimeout = 0;
  }

  static async open(plane: ControlPlane): Promise<Passage> {
    const { cert, key } = await issueCertificate(
      await sharedPki(),
      `${plane.runDir}/passage`,
      { user: "passage", names: ["IP:127.0.0.1"] },
    );
    const passage = new Passage(plane, {
      cert: await Deno.readTextFile(cert),
      key: await Deno.readTextFile(key),
    });
    const { promise, resolve } = Promise.withResolvers<void>();
    passage.#server.listen(0, "127.0.0.1", resolve);
    await promise;
    return passage;
  }

  get url(): string {
    const address = this.#server.address();
    assert.ok(typeof address === "object");
    return `https://127.0.0.1:${address?.port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.close(() => resolve());
    this.#server.closeAllConnections();
    await promise;
    this.#client.close();
  }
}

Deno.test(
  "an API server that goes away amid a command is an error, whichever answer it is, and nothing is said to be well",
  async (t) => {
    await using plane = await startCoilPlane({ name: "clicut" });
    await populate(plane);
    await using passage = await Passage.open(plane);
    const kubeconfig = `${plane.runDir}/passage.kubeconfig`;
    const user = { token: plane.adminToken };
    await Deno.writeTextFile(
      kubeconfig,
      kubeconfigText(passage.url, { caFile: plane.caFile, user }),
    );
    const run = (command: string, answers: number) => {
      passage.budget = { left: answers };
      return coil([...command.split(" "), `--kubeconfig=${kubeconfig}`]);
    };
    await t.step("coil sysdump goes on, and says what is missing", async () => {
      const file = `${plane.runDir}/dump.tar.gz`;
      const dump = (answers: number) => run(`sysdump -o ${file}`, answers);
      const whole = await dump(1_000);
      assert.ok([0, 3].includes(whole.code), whole.err);
      const requests = 1_000 - passage.budget.left;
      for (const answers of [0, Math.floor(requests / 2), requests - 1]) {
        await Deno.remove(file).catch(() => {});
        const { code, out, err } = await dump(answers);
        // Without an API server at all there is no archive.
        const expected = answers === 0 ? [1, ""] : [3, `${file}\n`];
        assert.deepEqual([code, out], expected, `after ${answers}: ${err}`);
        assert.match(err, answers === 0 ? /^Error: Cannot / : /Missing/i);
      }
    });
    for (const command of COMMANDS) {
      await t.step(`coil ${command}`, async () => {
        const whole = await run(command, 1_000);
        assert.ok([0, 3].includes(whole.code), whole.err);
        for (let answers = 0;; answers++) {
          const { code, out, err } = await run(command, answers);
          const where = `after ${answers} answers: ${out}${err}`;
          if (passage.budget.left >= 0) {
            assert.ok(answers > 0);
            assert.equal(code, whole.code, where);
            break;
          }
          assert.deepEqual([code, out], [1, ""], where);
          assert.match(err, /^Error: Cannot /, where);
        }
      });
    }
  },
);
