# The image of every role. The executable picks its role by the name it is
# called by, so each name is a link to the one file.
FROM node:22-bookworm AS build
WORKDIR /src
COPY . .
RUN npx --yes deno@2.9.6 task build --out /out/coil

FROM debian:bookworm-slim
# nft programs rulesets; modprobe loads tunnel modules on the host's kernel.
RUN apt-get update \
 && apt-get install -y --no-install-recommends nftables kmod ca-certificates \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/coil /usr/local/coil/coil
RUN cd /usr/local/coil && for role in coild coil-controller \
    coil-ipam-controller coil-egress-controller coil-egress coil-router \
    coil-installer coil-migrator; do ln -s coil "$role"; done
ENV PATH=/usr/local/coil:$PATH
LABEL org.opencontainers.image.title="Coil" \
      org.opencontainers.image.licenses="MIT"
