import { CommandError, connect } from "../../../lib/command/mod.ts";
import { messageOf } from "../../../lib/errors/mod.ts";
import {
  EtcdClient,
  type EtcdClientOptions,
  parseEndpoint,
} from "../../../lib/etcd/mod.ts";
import { type ClusterValues, UsageError } from "../../../lib/flags/mod.ts";
import {
  KubeApiError,
  type KubeClient,
  NAMESPACES,
} from "../../../lib/kube/mod.ts";
import type { DumpValues } from "./flags.ts";

/** What the API server knows the migration by. */
const NAME = "coil-migrator";

/**
 * Connects to the API server and makes one request, so that what is wrong with it is known before anything is done.
 *
 * @throws {CommandError} when the configuration is missing or cannot be used
 */
export async function connectNow(
  values: ClusterValues,
  { signal }: { readonly signal: AbortSignal },
): Promise<KubeClient> {
  using undo = new DisposableStack();
  const client = undo.use(
    await connect(values, { program: NAME, fieldManager: NAME }),
  );
  try {
    await client.get(NAMESPACES, { name: "default", signal });
  } catch (error) {
    // A 403 is an answer, too: which rights there are does not matter here.
    const answers = error instanceof KubeApiError && error.isForbidden;
    if (!answers) throw error;
  }
  undo.move();
  return client;
}

/**
 * Makes the client of v1's etcd.
 *
 * @throws {UsageError} when the flags contradict one another
 * @throws {CommandError} when a file cannot be read
 */
export async function etcdClient(values: DumpValues): Promise<EtcdClient> {
  const tls = await tlsOptions(values);
  const user = await userOf(values);
  return new EtcdClient({
    endpoints: values["etcd-endpoints"].map((text) => {
      try {
        return parseEndpoint(text, tls);
      } catch (error) {
        if (error instanceof SyntaxError) throw new UsageError(error.message);
        throw error;
      }
    }),
    timeoutMs: values["etcd-timeout"],
    pageSize: values["etcd-page-size"],
    ...(user === undefined ? {} : { user }),
  });
}

async function tlsOptions(values: DumpValues) {
  const { "etcd-tls-ca": ca, "etcd-tls-cert": cert, "etcd-tls-key": key } =
    values;
  if ((cert === "") !== (key === "")) {
    throw new UsageError("--etcd-tls-cert and --etcd-tls-key go together");
  }
  return {
    ...(ca === "" ? {} : { caCerts: [await readText("etcd-tls-ca", ca)] }),
    ...(cert === "" ? {} : {
      identity: {
        cert: await readText("etcd-tls-cert", cert),
        key: await readText("etcd-tls-key", key),
      },
    }),
  };
}

async function userOf(
  values: DumpValues,
): Promise<EtcdClientOptions["user"]> {
  const { "etcd-username": name, "etcd-password": password } = values;
  const file = values["etcd-password-file"];
  if (file !== "" && password !== "") {
    throw new UsageError(
      "--etcd-password and --etcd-password-file: only one of them",
    );
  }
  if (name === "" && (file !== "" || password !== "")) {
    throw new UsageError("a password needs --etcd-username");
  }
  if (name === "") return undefined;
  if (file === "") return { name, password };
  const text = await readText("etcd-password-file", file);
  return { name, password: text.replace(/\r?\n$/, "") };
}

async function readText(flag: string, file: string): Promise<string> {
  try {
    return await Deno.readTextFile(file);
  } catch (cause) {
    throw new CommandError(
      `Cannot read --${flag} "${file}": ${messageOf(cause)}`,
      { cause },
    );
  }
}
