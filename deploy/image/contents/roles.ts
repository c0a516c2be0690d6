/** Names by which main.ts knows what to be; each is a link to the executable. */
export const ROLE_LINKS: readonly string[] = [
  "coild",
  "coil-controller",
  "coil-ipam-controller",
  "coil-egress-controller",
  "coil-egress",
  "coordinator",
  "coil-router",
  "coil-installer",
  "coil-migrator",
];

/** Where the executable and its links are, as in upstream's image. */
export const PROGRAM_DIR = "usr/local/coil";
