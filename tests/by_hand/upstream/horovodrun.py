"""horovodrun without the check of what was built, for which the unpatched imports a framework."""

from horovod.runner import launch


def built(verbose: bool = False) -> bool:
    return True


if __name__ == "__main__":
    launch.mpi_built = launch.gloo_built = built
    launch.run_commandline()
