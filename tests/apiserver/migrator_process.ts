/**
 * `coil migrate` as a process of its own, that can be killed at any change that
 * it makes: its requests go through a gate that counts them.
 *
 * @module
 */
import * as path from "node:path";
import { buildExecutable } from "../../deploy/executable/mod.ts";
import type { ControlPlane } from "../lab/mod.ts";
import { kubeconfigText } from "../lab/kubeconfig.ts";
import { issueCertificate, sharedPki } from "../lab/pki.ts";
import type { Output } from "./migrator_testing.ts";

/** Runs the executable, one process at a time. */
export class MigratorProcess implements AsyncDisposable {
  readonly #plane: ControlPlane;
  readonly #executable: string;
  readonly #kubeconfig: string;
  readonly #http: Deno.HttpClient;
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  #child: Deno.ChildProcess | undefined;
  #changesLeft = Infinity;

  private constructor(
    plane: ControlPlane,
    program: { readonly executable: string; readonly kubeconfig: string },
    tls: { readonly cert: string; readonly key: string },
  ) {
    this.#plane = plane;
    this.#executable = program.executable;
    this.#kubeconfig = program.kubeconfig;
    this.#http = Deno.createHttpClient({ caCerts: [plane.ca] });
    this.#server = Deno.serve(
      { ...tls, hostname: "127.0.0.1", port: 0, onListen: () => {} },
      (request) => this.#forward(request),
    );
  }

  /** Starts the gate to this API server. */
  static async start(plane: ControlPlane): Promise<MigratorProcess> {
    const executable = await buildExecutable();
    const pki = await sharedPki();
    const base = path.join(plane.runDir, "migrator-gate");
    const files = await issueCertificate(pki, base, {
      user: "gate",
      names: ["IP:127.0.0.1"],
    });
    const kubeconfig = `${base}.kubeconfig`;
    const process = new MigratorProcess(plane, { executable, kubeconfig }, {
      cert: await Deno.readTextFile(files.cert),
      key: await Deno.readTextFile(files.key),
    });
    const server = `https://127.0.0.1:${process.#server.addr.port}`;
    const user = { token: plane.adminToken };
    const text = kubeconfigText(server, { caFile: pki.caCert, user });
    await Deno.writeTextFile(kubeconfig, text);
    return process;
  }

  /**
   * Runs it to its end. Undefined when it was killed, the n-th change made and not answered; 0: before the first. It is
   * killed before that when it has said `killWhen`.
   */
  async run(
    args: readonly string[],
    { killAt = Infinity, killWhen }: {
      readonly killAt?: number;
      readonly killWhen?: RegExp;
    } = {},
  ): Promise<Output | undefined> {
    this.#changesLeft = killAt;
    const child = this.#child = new Deno.Command(this.#executable, {
      args: ["migrate", ...args, `--kubeconfig=${this.#kubeconfig}`],
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const stdout = new Response(child.stdout).text();
    let err = "";
    for await (
      const text of child.stderr.pipeThrough(new TextDecoderStream())
    ) {
      err += text;
      if (killWhen?.test(err)) await this.#kill();
    }
    const { code, signal } = await child.status;
    const out = await stdout;
    return signal === "SIGKILL" ? undefined : { code, out, err };
  }

  /** Returns the answer to a request of a process that does not see it. */
  async #kill(): Promise<Response> {
    try {
      this.#child?.kill("SIGKILL");
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // it has ended
    }
    await this.#child?.status;
    return new Response(null, { status: 503 });
  }

  async #forward(request: Request): Promise<Response> {
    const { method, headers } = request;
    if (method !== "GET" && this.#changesLeft === 0) return await this.#kill();
    const { pathname, search } = new URL(request.url);
    const response = await fetch(`${this.#plane.url}${pathname}${search}`, {
      client: this.#http,
      method,
      headers,
      body: method === "GET" ? null : await request.bytes(),
    });
    if (method === "GET" || --this.#changesLeft > 0) return response;
    await response.body?.cancel();
    return await this.#kill();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
    this.#http.close();
  }
}
