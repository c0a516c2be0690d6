// A pod sends token after token to a gateway's port for announcements: each
// unknown one costs the API server a review, of which a gateway makes few.
import assert from "node:assert/strict";
import { postAnnouncement } from "../apiserver/announcing.ts";
import {
  CLIENT,
  EgressLab,
  untilReady,
} from "../apiserver/egress_gateway_lab.ts";
import { eventually } from "../lab/mod.ts";

/** Far more than a gateway reviews in all, for as long as the test takes. */
const TOKENS = 20_000;
const STRANGER = "127.0.0.66";

/** Sends announcements with invalid tokens, one after the other, from an address of its own. */
class Flood implements AsyncDisposable {
  /** How often each status was answered. */
  readonly answers = new Map<string, number>();
  readonly #process: Deno.ChildProcess;
  readonly #config: string;
  readonly #reading: Promise<void>;

  private constructor(process: Deno.ChildProcess, config: string) {
    this.#process = process;
    this.#config = config;
    this.#reading = this.#read();
  }

  static async start(url: string): Promise<Flood> {
    const config = await Deno.makeTempFile({ prefix: "coil-flood-" });
    const requests = Array.from({ length: TOKENS }, (_, n) =>
      [
        `url = "${url}"`,
        `header = "Authorization: Bearer junk.${n}"`,
        `interface = "${STRANGER}"`,
        `data = "{}"`,
        'output = "/dev/null"',
        'write-out = "%{http_code}\\n"',
        "silent",
      ].join("\n"));
    await Deno.writeTextFile(config, requests.join("\nnext\n"));
    try {
      const process = new Deno.Command("curl", {
        args: ["-K", config],
        stdout: "piped",
      }).spawn();
      return new Flood(process, config);
    } catch (error) {
      await Deno.remove(config);
      throw error;
    }
  }

  async #read(): Promise<void> {
    const text = this.#process.stdout.pipeThrough(new TextDecoderStream());
    for await (const chunk of text) {
      for (const [status] of chunk.matchAll(/\d{3}/g)) {
        this.answers.set(status, (this.answers.get(status) ?? 0) + 1);
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#process.kill();
    } catch {
      // It has sent them all.
    }
    await this.#process.status;
    await this.#reading;
    await Deno.remove(this.#config);
  }
}

Deno.test("a pod that sends token after token to a gateway keeps no node from announcing its clients", async (t) => {
  await using lab = await EgressLab.start("announceflood");
  await lab.createPod("coild-node1", {
    namespace: "kube-system",
    node: "node1",
    serviceAccount: "coild",
  });
  await lab.createBlock("default-1", "node1");
  await using gateway = await lab.startGateway({ confirmMs: 3_600_000 });
  await untilReady(gateway);
  const announce = async (name: string, address: string) => {
    const uid = await lab.createPod(name, { annotations: CLIENT });
    const token = await lab.token({ pod: "coild-node1" });
    return await eventually("the gateway to know the client", async () => {
      const client = { token, name, uid, address, block: "default-1" };
      const response = await postAnnouncement(gateway.announceUrl, client);
      const text = await response.text();
      return response.status !== 404 && `${response.status} ${text}`;
    });
  };
  await using flood = await Flood.start(gateway.announceUrl);
  await t.step("most of what it sends is refused unasked", async () => {
    await eventually(
      "the flood to be refused",
      () => (flood.answers.get("503") ?? 0) > 200,
    );
    // So many at once, and so many in a second after that.
    assert.ok((flood.answers.get("401") ?? 0) < 200);
  });
  await t.step(
    "a token that the gateway has not seen yet is asked about",
    async () => {
      for (const n of [2, 3, 4, 5]) {
        assert.match(await announce(`early-${n}`, `10.1.1.${n}`), /^204/);
      }
      assert.equal(gateway.kernel.clients.size, 4);
    },
  );
});
