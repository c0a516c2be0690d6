import * as path from "node:path";
import { run } from "./command.ts";
import { labDir, lockFile } from "./cache.ts";

/** Files that every lab shares: authorities and the key pair of service account tokens. */
export interface SharedPki {
  readonly caCert: string;
  readonly caKey: string;
  readonly frontCaCert: string;
  readonly frontCaKey: string;
  readonly serviceAccountKey: string;
  readonly serviceAccountPublicKey: string;
}

/** An authority's files. */
export type Authority = Pick<SharedPki, "caCert" | "caKey">;

const EC_KEY = ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
const DAYS = "3650";
/** Debian's default configuration would add extensions of an authority to every certificate. */
const OPENSSL_CONFIG = "[req]\ndistinguished_name=dn\n[dn]\n";

/** Makes, once per cache directory, the authorities of all labs. */
export async function sharedPki(): Promise<SharedPki> {
  const dir = path.join(labDir(), "pki");
  const file = (name: string) => path.join(dir, name);
  const pki = {
    caCert: file("ca.crt"),
    caKey: file("ca.key"),
    frontCaCert: file("front-ca.crt"),
    frontCaKey: file("front-ca.key"),
    serviceAccountKey: file("sa.key"),
    serviceAccountPublicKey: file("sa.pub"),
  };
  using _lock = await lockFile(path.join(labDir(), "pki.lock"));
  try {
    await Deno.stat(file("complete"));
    return pki;
  } catch (err) {
    if (!(err instanceof Deno.errors.NotFound)) throw err;
  }
  await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
  await Deno.writeTextFile(configFile(), OPENSSL_CONFIG);
  await Promise.all([
    authority("coil-lab-ca", pki.caCert, pki.caKey),
    authority("coil-lab-front-ca", pki.frontCaCert, pki.frontCaKey),
    run("openssl", [
      ...["ecparam", "-name", "prime256v1", "-genkey", "-noout"],
      ...["-out", pki.serviceAccountKey],
    ]),
  ]);
  await run("openssl", [
    ...["ec", "-in", pki.serviceAccountKey, "-pubout"],
    ...["-out", pki.serviceAccountPublicKey],
  ]);
  await Deno.writeTextFile(file("complete"), "");
  return pki;
}

function configFile(): string {
  return path.join(labDir(), "pki", "openssl.cnf");
}

/** Makes another authority, `base`.crt and `base`.key, than that of all labs. */
export async function createAuthority(base: string): Promise<Authority> {
  const made = { caCert: `${base}.crt`, caKey: `${base}.key` };
  await authority(path.basename(base), made.caCert, made.caKey);
  return made;
}

async function authority(
  name: string,
  cert: string,
  key: string,
): Promise<void> {
  await run("openssl", [
    ...["req", "-config", configFile(), "-x509", "-newkey", ...EC_KEY],
    ...["-subj", `/CN=${name}`],
    ...["-days", DAYS, "-keyout", key, "-out", cert],
    ...["-addext", "basicConstraints=critical,CA:TRUE"],
    ...["-addext", "keyUsage=critical,keyCertSign,cRLSign"],
  ]);
}

/** A certificate to be made: who it is for and, for servers, its names. */
export interface CertificateRequest {
  readonly user: string;
  readonly groups?: readonly string[];
  /** Subject alternative names in openssl's form: "IP:10.0.0.1", "DNS:localhost". */
  readonly names?: readonly string[];
}

/** Makes a key and a certificate signed by an authority; the files are `base`.crt and `base`.key. */
export async function issueCertificate(
  pki: Authority,
  base: string,
  request: CertificateRequest,
): Promise<{ cert: string; key: string }> {
  const [cert, key] = [`${base}.crt`, `${base}.key`];
  const organizations = (request.groups ?? []).map((g) => `/O=${g}`).join("");
  const names = request.names ?? [];
  await run("openssl", [
    ...["req", "-config", configFile(), "-x509", "-newkey", ...EC_KEY],
    ...["-days", DAYS, "-subj", `${organizations}/CN=${request.user}`],
    ...["-CA", pki.caCert, "-CAkey", pki.caKey, "-keyout", key, "-out", cert],
    ...["-addext", "basicConstraints=critical,CA:FALSE"],
    ...["-addext", "extendedKeyUsage=serverAuth,clientAuth"],
    ...(names.length > 0
      ? ["-addext", `subjectAltName=${names.join(",")}`]
      : []),
  ]);
  return { cert, key };
}
