"""TensorFlow's own server of a process, and the configuration of sessions on it."""

from __future__ import annotations

import socket

from ..compat import summarize_tf_error, tf
from ..errors import ToolkitError
from .meeting import listen_error
from .tasks import Cluster, Task, split_address


def configure(config: tf.ConfigProto, cluster: Cluster) -> tf.ConfigProto:
    """The configuration of a session of a cluster, from that of a process alone.

    A session sees the devices of its own process, and those of the parameter servers. Without this
    filter it would wait for every process of the cluster, also for those that have ended.
    """
    changed = tf.ConfigProto()
    changed.CopyFrom(config)
    changed.device_filters.append(device_name(cluster.task))
    if cluster.has_ps:
        changed.device_filters.append("/job:ps")
    else:
        leader = f"/job:{cluster.chief.job}/replica:0/task:{cluster.chief.index}"
        changed.experimental.collective_group_leader = leader
    return changed


def start_server(cluster: Cluster, config: tf.ConfigProto) -> tf.train.Server:
    """Start the server of this process, with the configuration of `configure`."""
    task, spec = cluster.task, tf.train.ClusterSpec(cluster.jobs)
    try:
        return tf.train.Server(spec, job_name=task.job, task_index=task.index, config=config)
    except tf.errors.OpError as error:
        raise _port_error(cluster, OSError(summarize_tf_error(error.message))) from error


def check_port(cluster: Cluster) -> None:
    """See that the server of this process can listen: RetryError if a program uses the port,
    UsageError if this user may not.
    """
    port = split_address(cluster.task.address)[1]
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError as error:
            raise _port_error(cluster, error) from error


def _port_error(cluster: Cluster, error: OSError) -> ToolkitError:
    hint = "End the program that uses the port, perhaps a process of an earlier job, or give the "
    hint += "task another port in all processes."
    return listen_error(cluster.task.name, cluster.task.address, error, hint)


def device_name(task: Task) -> str:
    """TensorFlow's name of the devices of a task, for filters."""
    return f"/job:{task.job}/task:{task.index}"
