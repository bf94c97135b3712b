/** An OCI runtime for daemons on hosts whose root has not every capability. */

const runtime = (program: string) =>
  `#!/bin/sh
bundle=. next=
for word; do
  [ -z "$next" ] || bundle=$word
  next=
  case $word in --bundle | -b) next=1 ;; --bundle=*) bundle=\${word#*=} ;; esac
done
if ! setpriv --dump | grep -q "bounding set:.*sys_resource"; then
  for word; do
    case $word in create | run)
      sed -i 's/,"CAP_SYS_RESOURCE"//g; s/"CAP_SYS_RESOURCE",//g' "$bundle/config.json"
      break ;;
    esac
  done
fi
exec ${program} "$@"
`;

/** Writes a runtime with which a privileged container gets all capabilities that the host's root has. */
export async function writeRuntime(path: string, program = "runc"): Promise<string> {
  await Deno.writeTextFile(path, runtime(program));
  await Deno.chmod(path, 0o755);
  return path;
}
