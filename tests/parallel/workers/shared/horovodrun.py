"""horovodrun without its check of what was built, for which every job imports every framework."""

from horovod.runner import launch


def built(verbose: bool = False) -> bool:
    return True


if __name__ == "__main__":
    launch.mpi_built = launch.gloo_built = built
    launch.run_commandline()
